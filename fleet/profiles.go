package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clientcmdlatest "k8s.io/client-go/tools/clientcmd/api/latest"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"
	"sigs.k8s.io/yaml"

	"github.com/volume-doctor/kubectl-volume-doctor/cluster"
)

// What ClusterProfile objects may add to the programs that give credentials, by the
// names of the extensions that say so, and what the file of the programs says of it
// (KEP-5339).
const (
	moreArguments = "clusterprofiles.multicluster.x-k8s.io/exec/additional-args"
	moreVariables = "clusterprofiles.multicluster.x-k8s.io/exec/additional-envs"
	forProgram    = "client.authentication.k8s.io/exec"

	policyIgnore   = "Ignore"
	policyAppend   = "Append"
	policyAddUnset = "AppendIfNotExists"
	policyReplace  = "Replace"
)

// program gives the credentials for the clusters of one access provider.
type program struct {
	Name       string                  `json:"name"`
	ExecConfig *clientcmdv1.ExecConfig `json:"execConfig"`
	// Arguments and Variables say what is done with those of a ClusterProfile. ""
	// is policyIgnore.
	Arguments string `json:"profileSourcedCLIArgsPolicy"`
	Variables string `json:"profileSourcedEnvVarsPolicy"`
}

// maxPrograms bounds the size of a file of programs.
const maxPrograms = 1 << 20

// OfInventory are the clusters of the ClusterProfile objects in the cluster of the
// configuration, which the kubeconfig calls name. The members are called NAMESPACE/NAME,
// in that order. The file names the programs that give credentials, the preferred first:
// it is what controllers of cluster inventories take as --clusterprofile-provider-file. A
// cluster that none of the programs is for is a member with an error.
func OfInventory(ctx context.Context, config *rest.Config, name, file string) ([]Member, error) {
	programs, err := readPrograms(file)
	if err != nil {
		return nil, err
	}
	inventory, err := cluster.New(config, cluster.Options{Context: name})
	if err != nil {
		return nil, err
	}
	defer inventory.Close()
	profiles, err := inventory.ClusterProfiles(ctx)
	if err == nil && len(profiles) == 0 {
		err = fmt.Errorf("the cluster at %s has no ClusterProfile object", inventory.Server())
	}
	return ofProfiles(profiles, programs), err
}

func readPrograms(file string) ([]program, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxPrograms+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxPrograms {
		return nil, fmt.Errorf("%s is larger than %d MiB", file, maxPrograms>>20)
	}
	var in struct {
		Providers []program `json:"providers"`
	}
	if err := yaml.Unmarshal(text, &in); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if len(in.Providers) == 0 {
		return nil, fmt.Errorf("%s names no access provider", file)
	}
	for i, p := range in.Providers {
		switch {
		case p.Name == "":
			return nil, fmt.Errorf("%s: provider %d has no name", file, i+1)
		case p.ExecConfig == nil || p.ExecConfig.Command == "":
			return nil, fmt.Errorf("%s: provider %q has no execConfig.command", file, p.Name)
		case !slices.Contains([]string{"", policyIgnore, policyAppend}, p.Arguments):
			return nil, fmt.Errorf("%s: provider %q: profileSourcedCLIArgsPolicy is %s or %s, not %q", file, p.Name, policyIgnore, policyAppend, p.Arguments)
		case !slices.Contains([]string{"", policyIgnore, policyAddUnset, policyReplace}, p.Variables):
			return nil, fmt.Errorf("%s: provider %q: profileSourcedEnvVarsPolicy is %s, %s or %s, not %q", file, p.Name, policyIgnore, policyAddUnset, policyReplace, p.Variables)
		}
	}
	return in.Providers, nil
}

func ofProfiles(profiles []cluster.Profile, programs []program) []Member {
	members := make([]Member, 0, len(profiles))
	for _, p := range profiles {
		name := p.Namespace + "/" + p.Name
		config, err := reach(name, p, programs)
		members = append(members, Member{Name: name, Context: name, config: config, Err: err})
	}
	slices.SortFunc(members, func(a, b Member) int { return cmp.Compare(a.Name, b.Name) })
	return members
}

// reach is the kubeconfig that reaches the cluster of a ClusterProfile, as
// BuildConfigFromCP of the cluster inventory API does it: the first program decides
// which of the access providers is taken. Of the provider's cluster no file of this
// machine is read, and its certificate is always verified.
func reach(name string, profile cluster.Profile, programs []program) (*clientcmdapi.Config, error) {
	access := map[string]cluster.AccessProvider{}
	for _, a := range slices.Concat(profile.Status.CredentialProviders, profile.Status.AccessProviders) {
		access[a.Name] = a
	}
	at := slices.IndexFunc(programs, func(p program) bool { _, ok := access[p.Name]; return ok })
	switch {
	case len(access) == 0:
		return nil, fmt.Errorf("ClusterProfile %s has no access provider: its cluster manager has not said how the cluster is reached", name)
	case at < 0:
		return nil, fmt.Errorf("ClusterProfile %s has the access providers %s, and the file has none of them", name, strings.Join(slices.Sorted(maps.Keys(access)), ", "))
	}
	given := access[programs[at].Name].Cluster
	exec, err := programs[at].exec(given.Extensions)
	if err != nil {
		return nil, fmt.Errorf("ClusterProfile %s: %w", name, err)
	}
	server := clientcmdv1.Cluster{
		Server:                   given.Server,
		TLSServerName:            given.TLSServerName,
		CertificateAuthorityData: given.CertificateAuthorityData,
		ProxyURL:                 given.ProxyURL,
	}
	for _, e := range given.Extensions {
		if e.Name == forProgram {
			server.Extensions = append(server.Extensions, e)
		}
	}
	config := clientcmdapi.NewConfig()
	err = clientcmdlatest.Scheme.Convert(&clientcmdv1.Config{
		CurrentContext: name,
		Clusters:       []clientcmdv1.NamedCluster{{Name: name, Cluster: server}},
		AuthInfos:      []clientcmdv1.NamedAuthInfo{{Name: name, AuthInfo: clientcmdv1.AuthInfo{Exec: exec}}},
		Contexts:       []clientcmdv1.NamedContext{{Name: name, Context: clientcmdv1.Context{Cluster: name, AuthInfo: name}}},
	}, config, nil)
	if err != nil {
		return nil, fmt.Errorf("ClusterProfile %s: %w", name, err)
	}
	return config, nil
}

// exec is the program with what the extensions of a cluster add to it.
func (p program) exec(extensions []clientcmdv1.NamedExtension) (*clientcmdv1.ExecConfig, error) {
	exec := p.ExecConfig.DeepCopy()
	exec.InteractiveMode = clientcmdv1.NeverExecInteractiveMode
	for _, e := range extensions {
		switch {
		case e.Name == moreArguments && p.Arguments == policyAppend:
			var more []string
			if err := json.Unmarshal(e.Extension.Raw, &more); err != nil {
				return nil, fmt.Errorf("its extension %s is no list of text", moreArguments)
			}
			exec.Args = append(exec.Args, more...)
		case e.Name == moreVariables && (p.Variables == policyAddUnset || p.Variables == policyReplace):
			var more map[string]string
			if err := json.Unmarshal(e.Extension.Raw, &more); err != nil {
				return nil, fmt.Errorf("its extension %s is no map of text", moreVariables)
			}
			exec.Env = withVariables(exec.Env, more, p.Variables == policyReplace)
		}
	}
	return exec, nil
}

// withVariables adds variables to those that are there, and replaces these where that
// is asked for.
func withVariables(env []clientcmdv1.ExecEnvVar, more map[string]string, replace bool) []clientcmdv1.ExecEnvVar {
	for _, name := range slices.Sorted(maps.Keys(more)) {
		at := slices.IndexFunc(env, func(v clientcmdv1.ExecEnvVar) bool { return v.Name == name })
		switch {
		case at < 0:
			env = append(env, clientcmdv1.ExecEnvVar{Name: name, Value: more[name]})
		case replace:
			env[at].Value = more[name]
		}
	}
	return env
}
