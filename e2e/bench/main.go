// Command bench measures volume-doctor beside what the wire alone takes and
// beside kubectl, on one machine and in one run, and writes what it measured
// into docs/evidence/performance.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/load"
)

func main() {
	runner()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	hold := flag.String("hold", "", "only start a cluster of this size and keep it until Ctrl-C")
	sizes := flag.String("sizes", "50/1500/418,1000/30000/6000,5000/150000/30000", "the clusters to measure, as NODES/PODS/VOLUMES")
	serve := flag.String("serve", "", "only measure serve, in a cluster of this size")
	lasts := flag.Duration("for", 10*time.Minute, "with -serve: how long pods change")
	rounds := flag.Int("rounds", 3, "how often each thing is measured; the median counts")
	page := flag.String("page", "", "the page to write the tables into; standard output where it is empty")
	flag.Parse()
	if err := run(ctx, *hold, *serve, *lasts, *sizes, *rounds, *page); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, hold, serve string, lasts time.Duration, sizes string, rounds int, page string) error {
	if serve != "" {
		size, err := parseSize(serve)
		if err != nil {
			return err
		}
		return standing(ctx, size, lasts, page)
	}
	if hold != "" {
		return keep(ctx, hold)
	}
	var results []result
	for text := range strings.SplitSeq(sizes, ",") {
		size, err := parseSize(text)
		if err != nil {
			return err
		}
		r, err := measure(ctx, size, rounds)
		if err != nil {
			return err
		}
		results = append(results, r)
	}
	var models []model
	for _, name := range []string{"BenchmarkModel", "BenchmarkModelOfManyClusters", "BenchmarkModelOfBrokenCluster"} {
		m, err := measureModel(ctx, name, rounds)
		if err != nil {
			return err
		}
		models = append(models, m)
	}
	return write(page, results, models[0], models[1], models[2], rounds)
}

func parseSize(text string) (load.Size, error) {
	var size load.Size
	if _, err := fmt.Sscanf(text, "%d/%d/%d", &size.Nodes, &size.Pods, &size.Volumes); err != nil {
		return size, fmt.Errorf("%q is no size: write it as NODES/PODS/VOLUMES", text)
	}
	return size, nil
}

// heartbeat is well within the 40 s after which a node counts as lost.
const heartbeat = 10 * time.Second

// keep holds a cluster up for measurements by hand.
func keep(ctx context.Context, text string) error {
	size, err := parseSize(text)
	if err != nil {
		return err
	}
	l, err := start(ctx, size)
	if err != nil {
		return err
	}
	defer l.Stop()
	fmt.Printf("export KUBECONFIG=%s\n", l.Kubeconfig)
	for {
		if err := l.heartbeat(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(heartbeat):
		}
	}
}
