package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// largest is the largest size of a kept input. Larger ones reach little that the smaller
	// ones do not.
	largest = 2 << 10
	// tried is how many of the smallest inputs of a target are examined: each is run on its
	// own.
	tried = 200
)

// keep copies, for each target, inputs from Go's cache to where go test replays them: at most
// that many, each reaching code that those before it do not. Inputs that are there already
// stay.
func keep(ctx context.Context, dir string, targets []*target, most int) error {
	bin, err := os.MkdirTemp("", "fuzz")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(bin) }()
	binary := filepath.Join(bin, "cover.test")
	built := ""
	for _, t := range targets {
		if t.pkg != built {
			if err := build(ctx, dir, t.pkg, binary, "-cover", "-coverpkg=./..."); err != nil {
				return err
			}
			built = t.pkg
		}
		c := &chooser{binary: binary, dir: filepath.Join(dir, t.pkg), name: t.name, profile: filepath.Join(bin, "profile")}
		if err := c.choose(ctx, t, most); err != nil {
			return fmt.Errorf("%s: %w", t, err)
		}
	}
	return nil
}

// chooser runs single inputs of one target.
type chooser struct {
	binary, dir, name, profile string
}

// input is one input of the cache.
type input struct {
	name   string
	size   int64
	blocks map[string]bool
}

func (c *chooser) choose(ctx context.Context, t *target, most int) error {
	cache, err := cacheOf(ctx, c.dir, t)
	if err != nil {
		return err
	}
	kept := filepath.Join(c.dir, "testdata", "fuzz", c.name)
	before, err := inputs(kept)
	if err != nil {
		return err
	}
	candidates, err := inputs(cache)
	if err != nil {
		return err
	}
	candidates = slices.DeleteFunc(candidates, func(i *input) bool {
		return i.size > largest || slices.ContainsFunc(before, func(b *input) bool { return b.name == i.name })
	})
	candidates = candidates[:min(tried, len(candidates))]
	if len(candidates) == 0 {
		fmt.Fprintf(os.Stderr, "%s: %d inputs\n", t, len(before))
		return nil
	}
	reached, err := c.blocks(ctx, "^"+c.name+"$") // by the seeds and by the inputs that are kept already
	if err != nil {
		return err
	}
	if err := os.MkdirAll(kept, 0o755); err != nil {
		return err
	}
	for _, i := range candidates {
		if i.blocks, err = c.try(ctx, filepath.Join(cache, i.name), filepath.Join(kept, i.name)); err != nil {
			return err
		}
	}
	n := len(before)
	for ; n < most; n++ {
		var best *input
		gain := 0
		for _, i := range candidates {
			for b := range reached {
				delete(i.blocks, b)
			}
			if len(i.blocks) > gain { // of two with the same gain the smaller one, because they are in that order
				best, gain = i, len(i.blocks)
			}
		}
		if best == nil {
			break
		}
		for b := range best.blocks {
			reached[b] = true
		}
		if err := link(filepath.Join(cache, best.name), filepath.Join(kept, best.name)); err != nil {
			return err
		}
	}
	if n == 0 {
		_ = os.Remove(kept) // it is empty
	}
	fmt.Fprintf(os.Stderr, "%s: %d inputs, %d of them new\n", t, n, n-len(before))
	return nil
}

// inputs are the files of a folder, the smallest first.
func inputs(dir string) ([]*input, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var list []*input
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return nil, err
		}
		list = append(list, &input{name: e.Name(), size: info.Size()})
	}
	slices.SortFunc(list, func(a, b *input) int { return cmp.Or(cmp.Compare(a.size, b.size), cmp.Compare(a.name, b.name)) })
	return list, nil
}

// try runs one input, which must be in the folder in which go test looks for it.
func (c *chooser) try(ctx context.Context, from, to string) (map[string]bool, error) {
	if err := link(from, to); err != nil {
		return nil, err
	}
	defer func() { _ = os.Remove(to) }()
	return c.blocks(ctx, "^"+c.name+"$/^"+filepath.Base(to)+"$")
}

func link(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o644)
}

// blocks are the blocks of code that a run reaches.
func (c *chooser) blocks(ctx context.Context, run string) (map[string]bool, error) {
	command := exec.CommandContext(ctx, c.binary, "-test.run="+run, "-test.coverprofile="+c.profile)
	command.Dir = c.dir
	if out, err := command.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", run, err, out)
	}
	profile, err := os.ReadFile(c.profile)
	if err != nil {
		return nil, err
	}
	reached := map[string]bool{}
	for line := range strings.Lines(string(profile)) {
		if words := strings.Fields(line); len(words) == 3 && words[2] != "0" {
			reached[words[0]] = true
		}
	}
	return reached, nil
}
