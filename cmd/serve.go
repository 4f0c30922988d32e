package cmd

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/volume-doctor/kubectl-volume-doctor/cluster"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
	"github.com/volume-doctor/kubectl-volume-doctor/serve"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

func newServe(g *globalFlags, streams genericiooptions.IOStreams) *cobra.Command {
	e := &examination{reportPrinter: reportPrinter{globalFlags: g}}
	var only, skip []string
	o := serve.Options{Version: buildVersion(), Log: streams.ErrOut, Now: time.Now, SaveMemory: os.Getenv("GOGC") == ""}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Follow the cluster for good, and serve what is found as metrics",
		Long: `serve follows the cluster as diagnose --watch does, and serves what it finds:
/metrics for Prometheus, /healthz and /readyz, and the HTML report at / where
--report-page is given. Of several processes one leads, by a Lease in the
namespace of -n, of the pod or of the kubeconfig; the others stand by. It
repairs nothing. -n, --check, --skip and --ignore narrow what is served.

Exit code: 0 after SIGTERM or Ctrl-C, 2 when it had to end: the Lease was lost,
or there was nobody to follow. Let whatever started it start it again.`,
		Example: `  kubectl volume-doctor serve --leader-elect=false --listen 127.0.0.1:8080
  kubectl volume-doctor serve --events --report-page`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := g.validate(); err != nil {
				return err
			}
			if g.file != "" {
				return errors.New("serve follows a cluster: it does not go with -f")
			}
			var err error
			if e.checks, err = selectChecks(only, skip); err != nil {
				return err
			}
			if err := e.leaveOut.read("", streams.In, streams.ErrOut); err != nil {
				return err
			}
			if o.Namespace, err = g.namespace(); err != nil {
				return err
			}
			host, err := os.Hostname()
			if err != nil {
				return fmt.Errorf("the name of this machine: %w", err)
			}
			g.driverObjects = true
			o.Identity = host + "_" + string(uuid.NewUUID())
			e.taken, e.asks = takenOver(cmd.Flags()), asks(nil)
			c, err := g.connect(streams)
			if err != nil {
				return err
			}
			o.Look = func(s *snapshot.Snapshot, first bool) (*repair.View, error) {
				return e.lookAgain(s, first, streams.ErrOut)
			}
			// It ends in order: requests under way are answered, and the Lease is released.
			process := interruptsOf(cmd.Context())
			process.exitsWith(exitHealthy)
			process.hold()
			defer process.release()
			return serve.Run(cmd.Context(), c.Cluster, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Listen, "listen", ":8080", "Serve HTTP on this address")
	f.BoolVar(&o.LeaderElect, "leader-elect", true, "Look only while this process holds the Lease")
	f.BoolVar(&o.ReportPage, "report-page", false, "Serve the HTML report at / to those who may get the nonResourceURL "+cluster.PagePath)
	f.BoolVar(&o.Events, "events", false, "Write an event about each finding's subject, once an hour")
	f.BoolVar(&o.Reports, "reports", false, "Write what stands into objects of openreports.io, one in each namespace")
	addNarrowing(cmd, &only, &skip, &e.leaveOut)
	return cmd
}
