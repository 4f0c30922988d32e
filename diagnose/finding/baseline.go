package finding

import (
	"errors"
	"fmt"
	"slices"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// KeepNew drops what the baseline, an earlier report, has already, and counts
// it. The error says that the two are not about the same cluster.
func (r *Report) KeepNew(baseline *Report) error {
	if err := r.sameClusters(baseline); err != nil {
		return err
	}
	known := fingerprints(baseline.Findings)
	before := len(r.Findings)
	r.Keep(func(f Finding) bool { return !known.Has(f.Fingerprint) })
	r.Known += before - len(r.Findings)
	return nil
}

// sameClusters compares the addresses, where both know one: a file does not.
func (r *Report) sameClusters(baseline *Report) error {
	switch {
	case len(r.Sources) > 0 && len(baseline.Sources) == 0:
		return errors.New("it is about one cluster, and this run is about several")
	case len(r.Sources) == 0 && len(baseline.Sources) > 0:
		return errors.New("it is about several clusters, and this run is about one")
	}
	here, there := r.servers(), baseline.servers()
	if len(here) == 0 || len(there) == 0 || slices.ContainsFunc(here, func(s string) bool { return slices.Contains(there, s) }) {
		return nil
	}
	return fmt.Errorf("it is about another cluster: %s, not %s", there[0], here[0])
}

func (r *Report) servers() []string {
	var servers []string
	for _, s := range append([]snapshot.Source{r.Source}, r.Sources...) {
		if s.Server != "" {
			servers = append(servers, s.Server)
		}
	}
	return servers
}
