package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// misnamed refuses a word where a command should be, and a group of commands without one.
// Cobra shows the help of the group and all is well: a pipeline with a misspelt check would
// pass for ever.
func misnamed(root *cobra.Command, args []string) error {
	if len(args) > 0 && (args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd) {
		return nil
	}
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd(args...)
	c, rest, _ := root.Find(args) // an error is a word that is none, which is told of below
	var behind []string
	if i := slices.Index(rest, "--"); i >= 0 {
		rest, behind = rest[:i], rest[i+1:]
	}
	if slices.ContainsFunc(rest, isFlag) {
		return nil
	}
	if c.HasParent() && c.Parent() == root && c.Name() == "help" {
		if of, word, _ := root.Find(rest); len(word) > 0 && !of.Runnable() {
			return unknown(of, word[0])
		}
	}
	if c.Runnable() {
		return nil
	}
	switch {
	case len(rest) == 0 && len(behind) > 0:
		return usage("a command cannot stand behind --: put %q before it, or see %s --help", behind[0], c.CommandPath())
	case len(rest) > 0:
		return unknown(c, rest[0])
	case c.HasParent():
		var names []string
		for _, sub := range c.Commands() {
			names = append(names, sub.CommandPath())
		}
		return usage("a command is missing: call %s, or see %s --help", strings.Join(names, " or "), c.CommandPath())
	}
	return nil
}

// unknown says that a group has no command of that name, and which it may be.
func unknown(group *cobra.Command, name string) error {
	meant := "see "
	group.SuggestionsMinimumDistance = 2
	if near := group.SuggestionsFor(name); len(near) > 0 {
		meant = "did you mean " + strings.Join(near, " or ") + "? See "
	}
	return usage("unknown command %q for %q: %s%s --help", name, group.CommandPath(), meant, group.CommandPath())
}

func isFlag(word string) bool { return strings.HasPrefix(word, "-") }

// oneOf lets the shell complete a flag that takes one of some words.
func oneOf(c *cobra.Command, flag string, words ...string) {
	if err := c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic("cli: " + err.Error()) // there is no such flag: a test runs every command
	}
}
