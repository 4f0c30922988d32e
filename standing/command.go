package standing

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/volume-doctor/kubectl-volume-doctor/cluster"
	"github.com/volume-doctor/kubectl-volume-doctor/cmd"
)

// Main runs the program and returns its exit code.
func Main(args []string, in io.Reader, out, errOut io.Writer) int {
	return cmd.Execute(newServe, args, in, out, errOut)
}

func newServe(streams genericiooptions.IOStreams) *cobra.Command {
	o := Options{Version: cmd.Version(), Log: streams.ErrOut, Now: time.Now}
	root := &cobra.Command{
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
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl volume-doctor serve"},
		Args:        cobra.NoArgs,
	}
	follows := cmd.NewStanding(root, streams)
	page := ""
	root.RunE = func(*cobra.Command, []string) error {
		if err := o.shows(page, root.Flags().Changed("listen")); err != nil {
			return err
		}
		c, err := follows.Connect(root, streams)
		if err != nil {
			return err
		}
		if o.Namespace, err = follows.Namespace(); err != nil {
			return err
		}
		host, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("the name of this machine: %w", err)
		}
		o.Identity = host + "_" + string(uuid.NewUUID())
		o.Look = follows.Look
		// The command ends in order: requests under way are answered, and the Lease is
		// released.
		defer cmd.EndsInOrder(root.Context())()
		return Run(root.Context(), c, o)
	}
	f := root.Flags()
	f.StringVar(&o.Listen, "listen", ":8080", "Serve HTTP on this address")
	f.BoolVar(&o.LeaderElect, "leader-elect", true, "Look only while this process holds the Lease")
	f.StringVar(&page, "report-page", "false", "Serve the HTML report at / to those who may get the nonResourceURL "+cluster.PagePath+"; localhost: to a browser on this machine, without a token")
	f.Lookup("report-page").NoOptDefVal = "true"
	f.BoolVar(&o.Events, "events", false, "Write an event about each finding's subject, once an hour")
	f.BoolVar(&o.Reports, "reports", false, "Write what stands into objects of openreports.io, one in each namespace")
	return root
}

// shows sets the options from the value of --report-page. A page without a token is only for
// this machine.
func (o *Options) shows(page string, listenGiven bool) error {
	switch page {
	case "true", "false":
		o.ReportPage = page == "true"
		return nil
	case "localhost":
		o.ReportPage, o.Local = true, true
	default:
		return fmt.Errorf("--report-page is true, false or localhost, not %q", page)
	}
	if !listenGiven {
		o.Listen = "127.0.0.1" + o.Listen
	}
	if !isLoopback(o.Listen) {
		return fmt.Errorf("--report-page=localhost asks for no token, and --listen %s would show the report to others; give 127.0.0.1 and a port", o.Listen)
	}
	return nil
}
