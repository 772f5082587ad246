package overlay_test

import "testing"

func TestRead_SaysWhichKeyIsNoText(t *testing.T) {
	for name, c := range map[string]struct{ data, want string }{
		"number": {"data: {0: b}", `config.yaml:4: key 0 is read as a number, and keys have to be text: write "0"`},
		"bool":   {"data:\n  a: b\n  true: b", `config.yaml:6: key true is read as true or false`},
		"time":   {"data: {2026-11-30: b}", `config.yaml:4: key 2026-11-30 is read as a time`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := write(t, map[string]string{
				"kustomization.yaml": "namePrefix: a-\nresources: [other.yaml, config.yaml]\n", "other.yaml": workload,
				"config.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\n" + c.data + "\n",
			})
			_, err := read(t, dir, ".")
			mustFail(t, err, c.want)
		})
	}
}
