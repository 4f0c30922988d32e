// Command hunt compares random clusters until the model that it was built with
// differs from a real controller, and prints the first difference as JSON.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/conformance"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/mutation/found"
)

func main() {
	clusters := flag.Int("clusters", 300, "how many random clusters to compare for each release")
	seed := flag.Uint64("seed", 1, "seed of the first cluster")
	releases := flag.String("releases", "", "the releases to ask, separated by commas")
	oracles := flag.Int("oracles", 3, "how many controllers to ask at once")
	flag.Parse()
	var result found.Result
	for _, release := range strings.Split(*releases, ",") {
		if err := hunt(conformance.Release(release), *seed, *clusters, *oracles, &result); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if result.Difference != nil {
			break
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(result); err != nil {
		os.Exit(1)
	}
}

// hunt stops at the first difference. What is under way at that time may come
// to a smaller seed, which is then the one that counts.
func hunt(release conformance.Release, first uint64, count, oracles int, result *found.Result) error {
	ctx := context.Background()
	binary, err := release.Build(ctx, os.Stderr)
	if err != nil {
		return err
	}
	var (
		mu      sync.Mutex
		workers sync.WaitGroup
		failed  error
		next    = first
	)
	take := func() (uint64, bool) {
		mu.Lock()
		defer mu.Unlock()
		next++
		return next - 1, failed == nil && result.Difference == nil && next-1 < first+uint64(count)
	}
	for range oracles {
		workers.Go(func() {
			o, err := conformance.StartOracle(ctx, release, binary)
			for err == nil {
				seed, ok := take()
				if !ok {
					err = o.Close()
					break
				}
				var rows int
				var d *found.Difference
				rows, d, err = compare(o, seed)
				mu.Lock()
				result.Rows += rows
				if d != nil && (result.Difference == nil || seed < result.Difference.Seed) {
					result.Difference = d
				}
				mu.Unlock()
			}
			if err != nil {
				mu.Lock()
				failed = err
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	return failed
}

// compare looks at the cluster of a seed in the modes in which the conformance
// test does. A model that panics differs.
func compare(o *conformance.Oracle, seed uint64) (rows int, d *found.Difference, err error) {
	defer func() {
		if p := recover(); p != nil {
			d = &found.Difference{Release: string(o.Release), Seed: seed, Row: "the model panics", Model: fmt.Sprint(p)}
		}
	}()
	c := conformance.Random(seed)
	modes := []conformance.Mode{{}}
	switch seed % 4 {
	case 0:
		modes = append(modes, conformance.Mode{TimedOut: true})
	case 2:
		modes = append(modes, conformance.Mode{Free: true})
	}
	for _, mode := range modes {
		oracle, err := o.Ask(c, mode)
		if err != nil {
			return rows, nil, err
		}
		model := conformance.Model(c, mode, o.Release, oracle)
		result := conformance.Compare(c, mode, model, oracle)
		rows += result.Rows
		if len(result.Differences) > 0 {
			first := result.Differences[0]
			return rows, &found.Difference{
				Release: string(o.Release), Seed: seed, Row: first.Row, Model: first.Model, Controller: first.Oracle,
			}, nil
		}
	}
	return rows, nil, nil
}
