package cli

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// plainHelp has the help of all commands show a flag that needs no value as kubectl does, by
// its name alone, where pflag would put [=true|false] behind it.
func plainHelp(root *cobra.Command) {
	usual := root.UsageFunc()
	root.SetUsageFunc(func(c *cobra.Command) error {
		for _, flags := range []*pflag.FlagSet{c.LocalFlags(), c.InheritedFlags()} {
			flags.VisitAll(func(f *pflag.Flag) {
				switch value := f.Value; value.Type() {
				case "bool":
					f.Value = valueless{value}
				case "stringToString":
					if f.DefValue == "[]" {
						f.DefValue = "" // nothing is no default to show
					}
				}
			})
		}
		return usual(c)
	})
}

// valueless is the value of a switch as another type than the one that pflag knows; nothing is
// parsed any more once help is shown.
type valueless struct{ pflag.Value }

// Type is the one of flags that call a function, which have no value either.
func (valueless) Type() string { return "boolfunc" }
