package cmd

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// member is one cluster of a fleet.
type member struct {
	// Name is the member's name in reports. It is unique.
	Name string
	// Context is the name of the kubeconfig context.
	Context string
	// File is the kubeconfig that has the context, where --kubeconfig does not.
	File string
	// Same are other contexts for the same server and the same user, which are not
	// looked at.
	Same []string
	// Err is the reason why nobody can look at it.
	Err error

	config *clientcmdapi.Config
}

// REST is the client configuration for the cluster. A program that gives credentials is told
// not to ask the user: several of them would share one keyboard.
func (m member) REST(overrides clientcmd.ConfigOverrides) (*rest.Config, error) {
	overrides.CurrentContext = m.Context
	config, err := clientcmd.NewNonInteractiveClientConfig(*m.config, m.Context, &overrides, nil).ClientConfig()
	if err != nil {
		return nil, err
	}
	if config.ExecProvider != nil {
		exec := *config.ExecProvider
		exec.StdinUnavailable, exec.StdinUnavailableMessage = true, "nobody can be asked for the password of one cluster of many"
		config.ExecProvider = &exec
	}
	return config, nil
}

// overridesOf are the flags of a command that apply to every member: the user for whom it
// acts, and how it connects.
func overridesOf(flags *genericclioptions.ConfigFlags) clientcmd.ConfigOverrides {
	o := clientcmd.ConfigOverrides{Timeout: *flags.Timeout}
	o.AuthInfo.Impersonate, o.AuthInfo.ImpersonateUID, o.AuthInfo.ImpersonateGroups = *flags.Impersonate, *flags.ImpersonateUID, *flags.ImpersonateGroup
	for _, extra := range *flags.ImpersonateUserExtra {
		if key, value, ok := strings.Cut(extra, "="); ok {
			if o.AuthInfo.ImpersonateUserExtra == nil {
				o.AuthInfo.ImpersonateUserExtra = map[string][]string{}
			}
			o.AuthInfo.ImpersonateUserExtra[key] = append(o.AuthInfo.ImpersonateUserExtra[key], value)
		}
	}
	o.ClusterInfo.InsecureSkipTLSVerify, o.ClusterInfo.DisableCompression = *flags.Insecure, *flags.DisableCompression
	return o
}

// Flags are kubectl's flags for the cluster.
func (m member) Flags() []string {
	flags := []string{"--context=" + m.Context}
	if m.File != "" {
		flags = append(flags, "--kubeconfig="+m.File)
	}
	return flags
}

// selectMembers chooses the members whose names or contexts match the patterns, all of them
// where there are no patterns, in the order of the patterns and then of the names. A pattern
// that matches none is an error. A file that cannot be read is always chosen: it is unknown
// which contexts it has.
//
// Of the members that only a pattern chose, one with the same server and the same user as
// another is left out, and stands in the other's Same: they see the same objects, and each
// finding would appear twice. A member with another user on the same server stays, because it
// may see other objects. A context that is named in full stays, too: somebody has asked for
// it.
func selectMembers(members []member, patterns []string) ([]member, error) {
	if len(patterns) == 0 {
		patterns = []string{"*"}
	}
	var chosen []member
	named, taken := map[string]bool{}, map[string]bool{}
	for _, pattern := range patterns {
		found := false
		for _, m := range members {
			exact := pattern == m.Name || pattern == m.Context
			if m.unnamed() {
				continue
			}
			fits, err := fitsMember(pattern, m)
			if err != nil && !exact {
				return nil, err
			}
			if !exact && !fits {
				continue
			}
			found = true
			named[m.Name] = named[m.Name] || exact
			if !taken[m.Name] {
				taken[m.Name] = true
				chosen = append(chosen, m)
			}
		}
		if !found && pattern != "*" {
			return nil, noSuchContext(pattern)
		}
	}
	for _, m := range members {
		if m.unnamed() {
			chosen = append(chosen, m)
		}
	}
	return onceEach(chosen, named), nil
}

// unnamed reports whether the member is a file whose contexts are unknown.
func (m member) unnamed() bool { return m.Err != nil && m.Context == "" }

func noSuchContext(pattern string) error {
	if strings.ContainsAny(pattern, `*?[`) {
		return fmt.Errorf("no context fits %q", pattern)
	}
	return fmt.Errorf("the kubeconfig has no context %q", pattern)
}

// fitsMember reports whether the pattern matches the member. A "*" also matches "/", which
// clouds use in the names of contexts.
func fitsMember(pattern string, m member) (bool, error) {
	noSlash := strings.NewReplacer("/", "\x00")
	for _, name := range []string{m.Name, m.Context} {
		if name == "" {
			continue
		}
		fits, err := path.Match(noSlash.Replace(pattern), noSlash.Replace(name))
		if err != nil {
			return false, fmt.Errorf("%q is no pattern: %w", pattern, err)
		}
		if fits {
			return true, nil
		}
	}
	return false, nil
}

// onceEach leaves out the members with the same identity as another.
func onceEach(chosen []member, named map[string]bool) []member {
	first := map[[sha256.Size]byte]string{}
	note := func(m member) {
		if _, known := first[m.identity()]; !known && m.Err == nil {
			first[m.identity()] = m.Name
		}
	}
	for _, m := range chosen {
		if named[m.Name] {
			note(m)
		}
	}
	for _, m := range chosen {
		note(m)
	}
	same := map[string][]string{}
	kept := slices.DeleteFunc(slices.Clone(chosen), func(m member) bool {
		of := first[m.identity()]
		if m.Err != nil || named[m.Name] || of == m.Name {
			return false
		}
		same[of] = append(same[of], m.Name)
		return true
	})
	for i := range kept {
		kept[i].Same = same[kept[i].Name]
	}
	return kept
}

// forProgram is the extension of a kubeconfig's cluster that is passed to the program for its
// credentials.
const forProgram = "client.authentication.k8s.io/exec"

// identity is equal for members with the same server and the same user, whatever their names
// in the kubeconfig.
func (m member) identity() [sha256.Size]byte {
	byName := sha256.Sum256([]byte(m.Name))
	if m.config == nil || m.config.Contexts[m.Context] == nil {
		return byName
	}
	in := m.config.Contexts[m.Context]
	server, user := m.config.Clusters[in.Cluster], m.config.AuthInfos[in.AuthInfo]
	if server == nil || user == nil && in.AuthInfo != "" {
		return byName
	}
	var what struct {
		Cluster clientcmdapi.Cluster
		User    clientcmdapi.AuthInfo
	}
	what.Cluster = *server
	if user != nil {
		what.User = *user
	}
	what.Cluster.Extensions, what.User.Extensions = nil, nil
	if asked, ok := server.Extensions[forProgram]; ok { // a program may choose the user by it
		what.Cluster.Extensions = map[string]runtime.Object{forProgram: asked}
	}
	text, err := json.Marshal(what)
	if err != nil {
		return byName
	}
	return sha256.Sum256(text)
}

// membersOfKubeconfig are the contexts of a kubeconfig, by name.
func membersOfKubeconfig(config *clientcmdapi.Config) []member {
	var members []member
	for _, name := range slices.Sorted(maps.Keys(config.Contexts)) {
		members = append(members, member{Name: name, Context: name, config: config})
	}
	return members
}

// noKubeconfigs are the names of other files in a folder of kubeconfigs: certificates and
// keys, and kubectl's temporary files.
var noKubeconfigs = []string{"*.crt", "*.key", "*.pem", "*.lock", ".*"}

// membersOfFolder are the contexts of every file in the folder, by file and name; it skips
// folders, and files that by their names cannot be kubeconfigs. A file that cannot be read is
// a member with an error. Contexts of several files with the same name are called NAME@FILE.
func membersOfFolder(folder string) ([]member, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		var of *os.PathError
		if errors.As(err, &of) {
			err = of.Err
		}
		return nil, fmt.Errorf("cannot read the folder %s: %w", folder, err)
	}
	var members []member
	named := map[string]int{}
	for _, entry := range entries {
		file := filepath.Join(folder, entry.Name())
		fits := func(pattern string) bool { ok, _ := path.Match(pattern, entry.Name()); return ok }
		if slices.ContainsFunc(noKubeconfigs, fits) {
			continue
		}
		info, err := os.Stat(file)
		if err == nil && info.IsDir() {
			continue
		}
		in, err := membersOfFile(file, info, err)
		if err != nil {
			in = []member{{Name: entry.Name(), File: file, Err: fmt.Errorf("%s is no kubeconfig: %w", file, err)}}
		}
		for _, m := range in {
			named[m.Name]++
		}
		members = append(members, in...)
	}
	if len(members) == 0 {
		return nil, fmt.Errorf("the folder %s has no kubeconfig", folder)
	}
	taken := map[string]bool{}
	for i := range members {
		m := &members[i]
		if named[m.Name] > 1 {
			m.Name += "@" + filepath.Base(m.File)
		}
		for taken[m.Name] { // a context may have that name itself
			m.Name += "@" + filepath.Base(m.File)
		}
		taken[m.Name] = true
	}
	return members, nil
}

// maxKubeconfig bounds the size of a kubeconfig in a folder.
const maxKubeconfig = 64 << 20

func membersOfFile(file string, info os.FileInfo, err error) ([]member, error) {
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("not a regular file")
	case info.Size() > maxKubeconfig:
		return nil, fmt.Errorf("it is larger than %d MiB", maxKubeconfig>>20)
	}
	config, err := (&clientcmd.ClientConfigLoadingRules{ExplicitPath: file}).Load()
	if err != nil {
		return nil, err
	}
	members := membersOfKubeconfig(config)
	if len(members) == 0 {
		return nil, errors.New("it has no context")
	}
	for i := range members {
		members[i].File = file
	}
	return members, nil
}
