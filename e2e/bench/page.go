package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// model is how long world, plan, checks and proposals take, by the number of pods.
type model map[int]time.Duration

// measureModel runs the Go benchmark of the name.
func measureModel(ctx context.Context, name string, rounds int) (model, error) {
	fmt.Fprintln(os.Stderr, name)
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "XXX", "-bench", "^"+name+"$", "-benchtime", "3s", "-count", strconv.Itoa(rounds),
		"github.com/volume-doctor/kubectl-volume-doctor/e2e/bench")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("the Go benchmarks: %w: %s", err, out)
	}
	benchmark := regexp.MustCompile(name + `/pods=(\d+)\S*\s+\d+\s+([\d.]+) ns/op`)
	runs := map[int][]time.Duration{}
	for _, m := range benchmark.FindAllStringSubmatch(string(out), -1) {
		pods, _ := strconv.Atoi(m[1])         // digits, says the expression
		ns, _ := strconv.ParseFloat(m[2], 64) // a number, says the expression
		runs[pods] = append(runs[pods], time.Duration(ns))
	}
	result := model{}
	for pods, times := range runs {
		slices.Sort(times)
		result[pods] = times[len(times)/2]
	}
	if len(result) < 2 {
		return nil, fmt.Errorf("the Go benchmarks: no result in: %s", out)
	}
	return result, nil
}

// exponent is the exponent of the growth between two sizes: 1 is linear.
func exponent(m model, from, to int) float64 {
	return math.Log(float64(m[to])/float64(m[from])) / math.Log(float64(to)/float64(from))
}

const (
	begin = "<!-- measured by make bench: begin -->\n"
	end   = "<!-- measured by make bench: end -->\n"
)

func write(page string, results []result, m, many, broken model, rounds int) error {
	return writeBetween(page, begin, end, tables(results, m, many, broken, rounds))
}

// writeBetween replaces what the page has between two lines.
func writeBetween(page, begin, end, text string) error {
	if page == "" {
		fmt.Print(text)
		return nil
	}
	old, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, ok := bytes.Cut(old, []byte(begin))
	_, after, closed := bytes.Cut(rest, []byte(end))
	if !ok || !closed {
		return fmt.Errorf("%s has no place for the tables", page)
	}
	return os.WriteFile(page, slices.Concat(before, []byte(begin+text+end), after), 0o644)
}

func tables(results []result, m, many, broken model, rounds int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nMeasured on %s with %d CPUs, %s; medians of %d, of the largest cluster of %d.\n",
		time.Now().UTC().Format(time.DateOnly), runtime.NumCPU(), runtime.Version(), rounds, rounds*roundsOfLargest)
	for _, r := range results {
		fmt.Fprintf(&b, "\n### %d nodes, %d pods, %d volumes\n\n", r.size.Nodes, r.size.Pods, r.size.Volumes)
		fmt.Fprintf(&b, "%d drifts injected; found: all of them, and nothing else. Load of the machine before: %s.\n\n", r.drifts, r.busy)
		b.WriteString("| what | wall | x raw | CPU | peak memory | requests | bytes |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n")
		row := func(what string, t took) {
			if t.missing != "" {
				fmt.Fprintf(&b, "| %s | %s | | | | | |\n", what, t.missing)
				return
			}
			requests, bytes := "-", "-"
			if t.requests > 0 {
				requests, bytes = strconv.FormatInt(t.requests, 10), megabytes(t.bytes)
			}
			fmt.Fprintf(&b, "| %s | %s | %.2f | %s | %s | %s | %s |\n", what, seconds(t.wall), t.wall.Seconds()/r.raw.wall.Seconds(),
				seconds(t.cpu), megabytes(t.memory), requests, bytes)
		}
		row("the lists as protobuf with curl, one after the other", r.raw)
		row("`diagnose`", r.ours)
		row("`diagnose pod/NAME`", r.pod)
		row("`kubectl get volumeattachments,pv,nodes,pods,pvc -A -o json`", r.kubectl)
		row("`snapshot FILE.gz`, "+megabytes(r.file), r.snapshot)
		row("`diagnose -f FILE.gz`", r.reread)
		for _, f := range r.files {
			row(f.what+", "+megabytes(f.size), f.took)
		}
	}
	b.WriteString("\n### World, plan, checks and proposals in memory\n\n")
	b.WriteString("| pods of a cluster | time | of as many such clusters as have 150,000 pods | where much is broken |\n| ---: | ---: | ---: | ---: |\n")
	sizes := slices.Sorted(maps.Keys(m))
	ms := func(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d)/1e6) }
	for _, pods := range sizes {
		fmt.Fprintf(&b, "| %d | %s | %s | %s |\n", pods, ms(m[pods]), ms(many[pods]), ms(broken[pods]))
	}
	from, to := sizes[0], sizes[len(sizes)-1]
	fmt.Fprintf(&b, "\nThe time grows with the pods to the power of %.2f, where much is broken of %.2f (1 is linear).\n", exponent(m, from, to), exponent(broken, from, to))
	fmt.Fprintf(&b, "One cluster of %d pods takes %.2f times as long as the same number of pods in clusters of %d.\n", to, m[to].Seconds()/many[from].Seconds(), from)
	b.WriteString("\n### What was aimed at\n\n| aim | measured | |\n| --- | ---: | --- |\n")
	for _, a := range aims(results) {
		met := "not met"
		if a.measured <= a.limit {
			met = "met"
		}
		fmt.Fprintf(&b, "| %s: at most %g %s | %.2f | %s |\n", a.what, a.limit, a.unit, a.measured, met)
	}
	b.WriteString("\n")
	return b.String()
}

// aim is a limit that volume-doctor is meant to keep.
type aim struct {
	what            string
	limit, measured float64
	unit            string
}

// aims are those about what was measured.
func aims(results []result) []aim {
	var list []aim
	for _, r := range results {
		size := fmt.Sprintf("%d pods, ", r.size.Pods)
		switch r.size.Pods {
		case 1_500:
			list = append(list,
				aim{size + "`diagnose`", 10, float64(r.ours.requests), "requests"},
				aim{size + "`diagnose`", 1.5, r.ours.wall.Seconds() / r.kubectl.wall.Seconds(), "times `kubectl get`"})
		case 30_000:
			list = append(list,
				aim{size + "`diagnose`", 1, r.ours.wall.Seconds() / r.raw.wall.Seconds(), "times the raw lists"},
				aim{size + "`diagnose`", 150, float64(r.ours.memory) / 1e6, "MB"})
		case 150_000:
			list = append(list,
				aim{size + "`diagnose`", 1.2, r.ours.wall.Seconds() / r.raw.wall.Seconds(), "times the raw lists"},
				aim{size + "`diagnose`", 500, float64(r.ours.memory) / 1e6, "MB"},
				aim{size + "`snapshot FILE.gz`", 800, float64(r.snapshot.memory) / 1e6, "MB"})
			for _, f := range r.files {
				what := fmt.Sprintf("%d pods, %s", r.size.Pods, f.what)
				list = append(list,
					aim{what, 2, f.wall.Seconds() / r.ours.wall.Seconds(), "times `diagnose`"},
					aim{what, 700, float64(f.memory) / 1e6, "MB"})
			}
		}
	}
	return list
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }
