package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/load"
)

// BenchmarkModel is all that happens between reading and printing: world, plan
// and every check.
func BenchmarkModel(b *testing.B) {
	for _, pods := range []int{1_500, 15_000, 150_000} {
		b.Run(fmt.Sprintf("pods=%d", pods), func(b *testing.B) {
			s := load.Cluster{Size: load.Size{Nodes: pods / 30, Pods: pods, Volumes: pods / 5}, Now: time.Now()}.Snapshot()
			for b.Loop() {
				diagnose.Diagnose(s, diagnose.Options{})
			}
		})
	}
}
