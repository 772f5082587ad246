package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-dev/sluice/operator/internal/gather"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/registry"
	"github.com/sluice-dev/sluice/operator/internal/trust"
)

// recordFlags say whether what registries answer is kept in a file, or read from one.
type recordFlags struct {
	record, offline string
	maxAge          time.Duration
}

func (f *recordFlags) register(c *cobra.Command) {
	c.Flags().StringVar(&f.record, "record", "", "signature cache file to write: what registries answered about the images, for --offline")
	c.Flags().StringVar(&f.offline, "offline", "", "signature cache file to read in place of asking registries: no network call is made")
	c.Flags().DurationVar(&f.maxAge, "max-age", limits.RecordingAge, "how old the file of --offline may be")
}

// facts are where a command reads what is not in its input: registries or a recording of
// them, and keys.
type facts struct {
	client    *registry.Client
	keys      gather.Keys
	recording *registry.Recording
	flags     *recordFlags
}

func (f *recordFlags) open(c *cobra.Command, from *registryFlags) (*facts, error) {
	options, err := from.options()
	if err != nil {
		return nil, err
	}
	out := &facts{keys: trust.New(trust.Options{}), flags: f}
	switch {
	case f.record != "" && f.offline != "":
		return nil, usage("--record and --offline: what is not asked cannot be recorded: give one of them")
	case c.Flags().Changed("max-age") && (f.offline == "" || f.maxAge <= 0):
		return nil, usage("--max-age=%s: it is a time such as 24h, and goes with --offline", f.maxAge)
	case f.record != "":
		if err := replaceable(f.record); err != nil {
			return nil, usage("--record=%s: %w", f.record, err)
		}
		out.recording = registry.NewRecording(time.Now())
		options.Record = out.recording
	case f.offline != "":
		if out.recording, err = readRecording(f.offline); err != nil {
			return nil, usage("--offline=%s: %w", f.offline, err)
		}
		options.Offline, options.MaxAge, out.keys = out.recording, f.maxAge, &trust.Offline{}
	}
	out.client = registry.New(options)
	return out, nil
}

func readRecording(name string) (*registry.Recording, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return registry.ReadRecording(f)
}

// replaceable refuses to write over a file that is something else.
func replaceable(name string) error {
	info, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errors.New("it is not a regular file: name another")
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if ok, err := registry.IsRecording(f); err != nil || info.Size() > 0 && !ok {
		return errors.Join(err, errors.New("it is there, and is no signature cache file: name another"))
	}
	return nil
}

// close says what an offline answer leaves open, or completes and writes the recording. The
// outcome of the command is passed through; where that was fine and the file is not there
// now, that is an error.
func (f *facts) close(ctx context.Context, s streams, outcome error) error {
	if f.flags.offline != "" {
		f.caution(s)
		return outcome
	}
	if f.recording == nil || codeOf(outcome) == ExitUsage && f.recording.Images() == 0 {
		return outcome // nothing was asked, and an older file is better than an empty one
	}
	for _, missing := range f.client.Complete(ctx) {
		say(s.err, "sluice: not recorded: ", missing)
	}
	err := writeFile(f.flags.record, f.recording.Write)
	if err == nil {
		say(s.err, "sluice: ", fmt.Sprintf("wrote %s; images in it: %d", f.flags.record, f.recording.Images()))
		return outcome
	}
	err = fmt.Errorf("--record=%s: %w", f.flags.record, err)
	if outcome == nil {
		return &exit{code: ExitUsage, err: err}
	}
	say(s.err, "sluice: ", err.Error())
	return outcome
}

func (f *facts) caution(s streams) {
	say(s.err, "sluice: offline: ", fmt.Sprintf("judged by what %s recorded at %s: what was moved, signed or taken away since is not seen",
		f.flags.offline, f.recording.At().Format(time.RFC3339)))
	if tags := f.recording.Tags(); len(tags) > 0 {
		say(s.err, "sluice: offline: ", fmt.Sprintf("nothing vouches for the digest of a tag but that file, of %s: name images by digest",
			shorten(tags)))
	}
}

// shorten lists the first few.
func shorten(all []string) string {
	const shown = 5
	if len(all) <= shown {
		return strings.Join(all, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(all[:shown], ", "), len(all)-shown)
}

// writeFile writes all of a file or leaves what was there.
func writeFile(name string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".sluice-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if err := errors.Join(write(f), f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}
