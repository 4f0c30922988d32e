package fleet

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/volume-doctor/kubectl-volume-doctor/cluster"
)

// profiles are ClusterProfile objects of namespace inventory, by name and status.
func profiles(t *testing.T, statuses map[string]string) []cluster.Profile {
	t.Helper()
	var list []cluster.Profile
	for name, status := range statuses {
		var p cluster.Profile
		if err := json.Unmarshal([]byte(`{"metadata": {"namespace": "inventory", "name": "`+name+`"}, "status": `+status+`}`), &p); err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
	return list
}

func fileOf(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "programs.json")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestProfiles(t *testing.T) {
	const (
		more = `{"name": "` + moreArguments + `", "extension": ["--id", "7"]}, {"name": "` + moreVariables + `", "extension": {"ZONE": "a", "HOME": "/root"}}`
		// certificate is base64 of "pem".
		server = `"server": "https://east:6443", "certificate-authority-data": "cGVt", "tls-server-name": "east"`
		file   = `{"providers": [
			{"name": "token", "execConfig": {"apiVersion": "client.authentication.k8s.io/v1", "command": "give", "args": ["token"], "env": [{"name": "HOME", "value": "/home"}], "interactiveMode": "Always", "provideClusterInfo": true}%s},
			{"name": "kept", "execConfig": {"apiVersion": "client.authentication.k8s.io/v1", "command": "keep"}}]}`
	)
	for name, tc := range map[string]struct {
		status, policies string
		command          string
		env              string
		err              string
	}{
		"its provider":                      {`{"accessProviders": [{"name": "token", "cluster": {` + server + `}}]}`, "", "give token", "HOME=/home", ""},
		"the older name":                    {`{"credentialProviders": [{"name": "token", "cluster": {` + server + `}}]}`, "", "give token", "HOME=/home", ""},
		"the newer name counts":             {`{"credentialProviders": [{"name": "token", "cluster": {"server": "https://old"}}], "accessProviders": [{"name": "token", "cluster": {` + server + `}}]}`, "", "give token", "HOME=/home", ""},
		"the file says which":               {`{"accessProviders": [{"name": "kept", "cluster": {"server": "https://other"}}, {"name": "token", "cluster": {` + server + `}}]}`, "", "give token", "HOME=/home", ""},
		"the second of the file":            {`{"accessProviders": [{"name": "kept", "cluster": {` + server + `}}]}`, "", "keep", "", ""},
		"nothing is added unasked":          {`{"accessProviders": [{"name": "token", "cluster": {` + server + `, "extensions": [` + more + `]}}]}`, "", "give token", "HOME=/home", ""},
		"nothing is added where it says so": {`{"accessProviders": [{"name": "token", "cluster": {` + server + `, "extensions": [` + more + `]}}]}`, `, "profileSourcedCLIArgsPolicy": "Ignore", "profileSourcedEnvVarsPolicy": "Ignore"`, "give token", "HOME=/home", ""},
		"arguments":                         {`{"accessProviders": [{"name": "token", "cluster": {` + server + `, "extensions": [` + more + `]}}]}`, `, "profileSourcedCLIArgsPolicy": "Append"`, "give token --id 7", "HOME=/home", ""},
		"variables that are not there":      {`{"accessProviders": [{"name": "token", "cluster": {` + server + `, "extensions": [` + more + `]}}]}`, `, "profileSourcedEnvVarsPolicy": "AppendIfNotExists"`, "give token", "HOME=/home ZONE=a", ""},
		"variables, replaced":               {`{"accessProviders": [{"name": "token", "cluster": {` + server + `, "extensions": [` + more + `]}}]}`, `, "profileSourcedEnvVarsPolicy": "Replace"`, "give token", "HOME=/root ZONE=a", ""},
		"arguments that are none":           {`{"accessProviders": [{"name": "token", "cluster": {` + server + `, "extensions": [{"name": "` + moreArguments + `", "extension": {"a": 1}}]}}]}`, `, "profileSourcedCLIArgsPolicy": "Append"`, "", "", "is no list of text"},
		"no provider":                       {`{}`, "", "", "", "ClusterProfile inventory/east has no access provider"},
		"providers of others":               {`{"accessProviders": [{"name": "z", "cluster": {}}, {"name": "a", "cluster": {}}]}`, "", "", "", "has the access providers a, z, and the file has none of them"},
	} {
		t.Run(name, func(t *testing.T) {
			programs, err := readPrograms(fileOf(t, strings.Replace(file, "%s", tc.policies, 1)))
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // one cluster changes nothing for the next
				m := ofProfiles(profiles(t, map[string]string{"east": tc.status}), programs)[0]
				if tc.err != "" {
					if m.Err == nil || !strings.Contains(m.Err.Error(), tc.err) {
						t.Errorf("%v, want %q", m.Err, tc.err)
					}
					continue
				}
				if m.Err != nil {
					t.Fatal(m.Err)
				}
				rest, err := m.REST(clientcmd.ConfigOverrides{})
				if err != nil {
					t.Fatal(err)
				}
				if rest.Host != "https://east:6443" || string(rest.CAData) != "pem" || rest.ServerName != "east" || rest.Insecure || rest.CAFile != "" {
					t.Errorf("another cluster: %s, %+v", rest.Host, rest.TLSClientConfig)
				}
				exec := rest.ExecProvider
				if got := strings.Join(append([]string{exec.Command}, exec.Args...), " "); got != tc.command || exec.InteractiveMode != "Never" {
					t.Errorf("runs %q %s, want %q", got, exec.InteractiveMode, tc.command)
				}
				var env []string
				for _, v := range exec.Env {
					env = append(env, v.Name+"="+v.Value)
				}
				if got := strings.Join(env, " "); got != tc.env {
					t.Errorf("with %q, want %q", got, tc.env)
				}
			}
		})
	}
}

// TestProfileIsNoFile: a cluster inventory makes nobody read a file of this machine, or
// believe a server without a certificate.
func TestProfileIsNoFile(t *testing.T) {
	programs, err := readPrograms(fileOf(t, `{"providers": [{"name": "p", "execConfig": {"apiVersion": "client.authentication.k8s.io/v1", "command": "give"}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	m := ofProfiles(profiles(t, map[string]string{"east": `{"accessProviders": [{"name": "p", "cluster":
		{"server": "https://east", "certificate-authority": "/etc/passwd", "insecure-skip-tls-verify": true}}]}`}), programs)[0]
	rest, err := m.REST(clientcmd.ConfigOverrides{})
	if err != nil {
		t.Fatal(err)
	}
	if rest.CAFile != "" || rest.Insecure || len(rest.CAData) > 0 {
		t.Errorf("%+v", rest.TLSClientConfig)
	}
}

// TestProfilesOfOneServer: a program is told which cluster it gives credentials for, so
// that two profiles of one server may be two users.
func TestProfilesOfOneServer(t *testing.T) {
	programs, err := readPrograms(fileOf(t, `{"providers": [{"name": "p", "execConfig": {"apiVersion": "client.authentication.k8s.io/v1", "command": "give", "provideClusterInfo": true}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	status := func(extension string) string {
		return `{"accessProviders": [{"name": "p", "cluster": {"server": "https://east", "extensions": [` + extension + `]}}]}`
	}
	members := ofProfiles(profiles(t, map[string]string{
		"a":     status(`{"name": "client.authentication.k8s.io/exec", "extension": {"user": "a"}}`),
		"b":     status(`{"name": "client.authentication.k8s.io/exec", "extension": {"user": "b"}}`),
		"again": status(`{"name": "client.authentication.k8s.io/exec", "extension": {"user": "a"}}`),
	}), programs)
	chosen, err := Select(members, []string{"inventory/*"})
	if err != nil || !slices.Equal(names(chosen), []string{"inventory/a", "inventory/b"}) || !slices.Equal(chosen[0].Same, []string{"inventory/again"}) {
		t.Errorf("%v, %v", chosen, err)
	}
}

// TestProfileOutOfReach: of those that nobody can reach, the chosen ones are told.
func TestProfileOutOfReach(t *testing.T) {
	programs, err := readPrograms(fileOf(t, `{"providers": [{"name": "p", "execConfig": {"command": "give"}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	members := ofProfiles(profiles(t, map[string]string{"east": `{"accessProviders": [{"name": "p", "cluster": {"server": "https://east"}}]}`, "west": `{}`}), programs)
	for pattern, want := range map[string][]string{"*": {"inventory/east", "inventory/west"}, "*/east": {"inventory/east"}, "inventory/w*": {"inventory/west"}} {
		if chosen, err := Select(members, []string{pattern}); err != nil || !slices.Equal(names(chosen), want) {
			t.Errorf("%s: %v, %v", pattern, names(chosen), err)
		}
	}
}

func TestBadPrograms(t *testing.T) {
	const exec = `"execConfig": {"command": "give"}`
	for text, says := range map[string]string{
		`{"providers": [`:                  "did not find expected",
		`{}`:                               "names no access provider",
		`{"providers": [{` + exec + `}]}`:  "provider 1 has no name",
		`{"providers": [{"name": "p"}]}`:   `provider "p" has no execConfig.command`,
		`{"providers": {"name": "p"}}`:     "cannot unmarshal",
		strings.Repeat(" ", maxPrograms+1): "is larger than 1 MiB",
		`{"providers": [{"name": "p", ` + exec + `, "profileSourcedCLIArgsPolicy": "Replace"}]}`: `not "Replace"`,
		`{"providers": [{"name": "p", ` + exec + `, "profileSourcedEnvVarsPolicy": "Append"}]}`:  `not "Append"`,
	} {
		if _, err := readPrograms(fileOf(t, text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.40s: %v, want %q", text, err, says)
		}
	}
	if _, err := readPrograms(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("read a file that is not there")
	}
}
