package argocd_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"
	"time"

	lua "github.com/yuin/gopher-lua"
	"sigs.k8s.io/yaml"
)

// run runs a script as Argo CD does for scripts of argocd-cm: a second, the base and table
// libraries, and of os what tells the time. It returns what the script returns.
func run(t *testing.T, script string, object map[string]any) any {
	t.Helper()
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for name, open := range map[string]lua.LGFunction{lua.LoadLibName: lua.OpenPackage, lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable} {
		if err := state.CallByParam(lua.P{Fn: state.NewFunction(open), Protect: true}, lua.LString(name)); err != nil {
			t.Fatal(err)
		}
	}
	state.PreloadModule(lua.OsLibName, func(l *lua.LState) int {
		l.Push(l.NewFunction(lua.OpenOs))
		l.Call(0, 1)
		whole := l.CheckTable(-1)
		safe := l.NewTable()
		for _, name := range []string{"time", "date"} {
			safe.RawSetString(name, whole.RawGetString(name))
		}
		l.Push(safe)
		return 1
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	state.SetContext(ctx)
	state.SetGlobal("obj", toLua(state, object))
	if err := state.DoString(script); err != nil {
		t.Fatal(err)
	}
	out, err := fromLua(state.Get(-1))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func toLua(l *lua.LState, value any) lua.LValue {
	switch v := value.(type) {
	case map[string]any:
		table := l.NewTable()
		for key, field := range v {
			table.RawSetString(key, toLua(l, field))
		}
		return table
	case []any:
		table := l.NewTable()
		for _, entry := range v {
			table.Append(toLua(l, entry))
		}
		return table
	case string:
		return lua.LString(v)
	case float64:
		return lua.LNumber(v)
	case bool:
		return lua.LBool(v)
	}
	return lua.LNil
}

// fromLua cannot tell an empty list from an empty map, and makes nil of either.
func fromLua(value lua.LValue) (any, error) {
	switch v := value.(type) {
	case lua.LString:
		return string(v), nil
	case lua.LNumber:
		return float64(v), nil
	case lua.LBool:
		return bool(v), nil
	case *lua.LNilType:
		return nil, nil
	case *lua.LTable:
		return fromTable(v)
	}
	return nil, fmt.Errorf("a script returned a %s", value.Type())
}

func fromTable(table *lua.LTable) (any, error) {
	var list []any
	fields := map[string]any{}
	var errs []error
	table.ForEach(func(key, field lua.LValue) {
		value, err := fromLua(field)
		errs = append(errs, err)
		if name, ok := key.(lua.LString); ok {
			fields[string(name)] = value
		} else {
			list = append(list, value)
		}
	})
	switch {
	case len(list) > 0 && len(fields) > 0:
		errs = append(errs, errors.New("a script returned a table that is both a list and a map"))
	case len(list) > 0:
		return list, errors.Join(errs...)
	case len(fields) == 0:
		return nil, errors.Join(errs...)
	}
	return fields, errors.Join(errs...)
}

// read reads a file of YAML.
func read(t *testing.T, files fs.FS, name string, into any) {
	t.Helper()
	raw, err := fs.ReadFile(files, name)
	if err == nil {
		err = yaml.UnmarshalStrict(raw, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}
