package histories

import (
	"testing"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/conformance"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/oracle/wire"
)

// TestSyncPeriod has controllers with other values of --attach-detach-reconcile-sync-period,
// and with the sync off, live through random histories. The model with the setting must
// foretell what they do, and the one with the default must not.
func TestSyncPeriod(t *testing.T) {
	t.Parallel()
	oracle := start(t, conformance.Newest)
	periods := []time.Duration{20 * time.Second, 3 * time.Minute, 10 * time.Minute, -1}
	byDefault := map[time.Duration]int{}
	total := row{Release: conformance.Newest, Counts: map[string]int{}}
	for s := *seed; s < *seed+uint64(*count); s++ {
		request := Generate(s)
		request.SyncPeriod = periods[s%uint64(len(periods))]
		story := live(t, oracle, request)
		result := Compare(conformance.Newest, request, story, AskModel)
		total.add(result)
		if len(result.Differences) > 0 {
			t.Errorf("seed %d, period %s: %s", s, request.SyncPeriod, result.Differences[0])
		}
		other := *request
		other.SyncPeriod = 0
		if len(Compare(conformance.Newest, &other, story, AskModel).Differences) > 0 {
			byDefault[request.SyncPeriod]++
		}
		for _, deed := range story.Deeds {
			if request.SyncPeriod < 0 && deed.Verb == wire.Forgotten {
				t.Errorf("seed %d: forgotten without the sync", s)
			}
		}
	}
	for _, period := range periods {
		if byDefault[period] == 0 && *count >= 100 {
			t.Errorf("nothing tells a period of %s from a minute", period)
		}
	}
	t.Logf("%d histories, %d deeds compared, %d differ; taken for a minute, by period: %v", total.Histories, total.Counts["deeds compared"], total.Differing, byDefault)
}
