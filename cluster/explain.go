package cluster

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/volume-doctor/kubectl-volume-doctor/internal/safetext"
)

// explained is an error as one line of plain words. It wraps the original error.
type explained struct {
	text string
	err  error
}

func (e *explained) Error() string { return e.text }
func (e *explained) Unwrap() error { return e.err }

// Explain says in plain words what went wrong on the way to the API server.
func (c *Cluster) Explain(err error) error {
	var already *explained
	if errors.As(err, &already) {
		return err
	}
	return &explained{c.plain(err), err}
}

func (c *Cluster) plain(err error) string {
	var dns *net.DNSError
	var untrusted x509.UnknownAuthorityError
	var hostname x509.HostnameError
	var invalid x509.CertificateInvalidError
	var page *pageError
	var limit *limitError
	switch {
	case errors.Is(err, context.Canceled):
		return "interrupted"
	case apierrors.IsUnauthorized(err):
		return fmt.Sprintf("the API server at %s does not accept the credentials: has the token or certificate expired? Log in again", c.server)
	case isStatus(err):
		return message(err)
	case errors.As(err, &page):
		return fmt.Sprintf("the API server at %s sent something else than the list that was asked for: %s", c.server, oneLine(page.Error()))
	case errors.As(err, &limit):
		return fmt.Sprintf("the answer of the API server at %s exceeds a bound: %s", c.server, limit)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Sprintf("cannot reach the API server at %s: connection refused", c.server)
	case errors.As(err, &dns):
		return fmt.Sprintf("cannot reach the API server at %s: no such host %q", c.server, dns.Name)
	case errors.As(err, &untrusted), errors.As(err, &hostname), errors.As(err, &invalid):
		return fmt.Sprintf("the API server at %s cannot be trusted: %s", c.server, innermost(err))
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), timedOut(err):
		return fmt.Sprintf("the API server at %s did not answer in time", c.server)
	default:
		return fmt.Sprintf("cannot talk to the API server at %s: %s", c.server, innermost(err))
	}
}

func isStatus(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status)
}

func timedOut(err error) bool {
	var e net.Error
	return errors.As(err, &e) && e.Timeout()
}

// message is the API server's message, in one line.
func message(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Message != "" {
		return oneLine(status.Status().Message)
	}
	return oneLine(err.Error())
}

// innermost removes the URL, which would repeat the address.
func innermost(err error) string {
	var in *url.Error
	if errors.As(err, &in) {
		err = in.Err
	}
	return oneLine(err.Error())
}

// oneLine is a foreign text without line ends and without secrets: it goes into reports and
// journals.
func oneLine(text string) string { return safetext.Redact(strings.Join(strings.Fields(text), " ")) }
