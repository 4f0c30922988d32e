//go:build overlay

package parts

import (
	"context"
	"net"

	csiplugin "k8s.io/kubernetes/pkg/volume/csi"
)

// serveWith has the CSI plug-in know the driver, and reach it by the function.
func serveWith(driver string, dial func(context.Context, string) (net.Conn, error)) {
	csiplugin.Dial = dial
	csiplugin.SetDriver(driver, "bubble")
}
