//go:build unix

package cmd_test

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// bearing sends the token with each request.
type bearing string

func (b bearing) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// TestModelOverHTTP: the process serves HTTP at a port of its own, to clients with the token
// of --token-file, and ends with exit code 0 at Ctrl-C.
func TestModelOverHTTP(t *testing.T) {
	const token = "a-token-of-many-characters"
	server, kubeconfig := newAPI(t, "vd102-forty-pods")
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, t.TempDir(), nil, "mcp", "--kubeconfig", kubeconfig, "--listen", "127.0.0.1:0", "--token-file", file)
	p.says("serving http://")
	address := regexp.MustCompile(`http://127\.0\.0\.1:\d+/`).FindString(p.stderr())
	connect := func(token string) (*sdk.ClientSession, error) {
		return sdk.NewClient(&sdk.Implementation{Name: "a test", Version: "1"}, nil).Connect(t.Context(),
			&sdk.StreamableClientTransport{Endpoint: address, HTTPClient: &http.Client{Transport: bearing(token)}, DisableStandaloneSSE: true, MaxRetries: -1}, nil)
	}
	if _, err := connect("another-token-of-many"); err == nil {
		t.Error("another token is taken")
	}
	session, err := connect(token)
	if err != nil {
		t.Fatal(err)
	}
	result, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "diagnose", Arguments: map[string]any{"targets": []string{"node/n1"}}})
	if err != nil {
		t.Fatal(err)
	}
	if text := result.Content[0].(*sdk.TextContent).Text; !strings.Contains(text, "error VD102  Node n1 is lost") {
		t.Errorf("%s", text)
	}
	if err := session.Close(); err != nil {
		t.Error(err)
	}
	p.interrupt()
	p.exits(0)
	if server.writes() != 0 {
		t.Errorf("%d writes", server.writes())
	}
}
