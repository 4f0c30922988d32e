package chaos_test

import (
	"bytes"
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/command"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/faultproxy"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/invariant"
	"github.com/volume-doctor/kubectl-volume-doctor/repair/apply"
)

// journal is the name of a round's journal, in its folder.
const journal = "journal"

// folder is the folder in which the round's doctors run.
func (r *round) folder() string { return filepath.Join(r.dir, r.name) }

// session makes a way to the API server that notes the evidence for every write. journals is
// a pattern of the files that may announce the writes.
func (r *round) session(what, journals string, t *tally) *faultproxy.Session {
	name := r.name + "-" + what
	session := r.proxy.Session(name, func(q faultproxy.Request) faultproxy.Fault {
		fault := faultproxy.None
		if t != nil {
			fault = r.strike(q, t, strings.HasPrefix(what, undoing))
		}
		r.observe(name, q, fault)
		if q.Class == faultproxy.Write {
			entries, found := r.announcements(journals)
			r.mu.Lock()
			if found { // otherwise the write has no entry
				r.sent[q.AuditID] = invariant.Sent{Looked: r.looked[name], Journal: entries, Reviewed: r.approved[name]}
			}
			r.mu.Unlock()
		}
		return fault
	})
	return session
}

// observe notes when a look begins and what it fails to read. A request that was repeated and
// answered does not count as failed.
func (r *round) observe(name string, q faultproxy.Request, fault faultproxy.Fault) {
	if q.Class != faultproxy.Read {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if q.Resource == "version" { // every look begins with it
		r.looked[name], r.missing[name] = time.Now(), map[string]bool{}
		return
	}
	if r.missing[name] == nil {
		r.missing[name] = map[string]bool{}
	}
	if fault.Answered() {
		delete(r.missing[name], q.Resource)
	} else {
		r.missing[name][q.Resource] = true
	}
}

// strike returns the fault for the request.
func (r *round) strike(q faultproxy.Request, t *tally, undoes bool) faultproxy.Fault {
	happens, fault := t.hit(q, func() float64 {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.random.Float64()
	})
	if fault == faultproxy.Stale && (q.Class != faultproxy.Read || r.hides(t.assault)) {
		fault = faultproxy.None // nothing out of date can be given
	}
	written := t.written() // before r.mu: hit takes r.mu while it holds the tally's own
	r.mu.Lock()
	if fault != faultproxy.None {
		r.faults[fault]++
		if undoes {
			r.undoing[fault]++
		}
		if q.Class == faultproxy.Read && !fault.Answered() && written {
			r.failed[q.Resource]++
		}
	}
	if happens != "" {
		r.racing.Add(1)
	}
	r.mu.Unlock()
	if happens != "" {
		r.happen(context.Background(), happens)
		r.racing.Done()
	}
	return fault
}

// announcements are the entries of the journals, whose writes are numbered across them.
func (r *round) announcements(pattern string) (all []apply.Entry, found bool) {
	for i, j := range r.journals(pattern) {
		for _, e := range j.Entries {
			e.Write += i << 20
			all = append(all, e)
		}
		found = found || j.Err == nil
	}
	return all, found
}

// journals are those in the round's folder whose names match.
func (r *round) journals(pattern string) []invariant.Journal {
	names, err := filepath.Glob(filepath.Join(r.folder(), pattern))
	if err != nil {
		panic(err) // the pattern is one of ours
	}
	var journals []invariant.Journal
	for _, name := range names {
		entries, err := readJournal(name)
		journals = append(journals, invariant.Journal{Name: r.name + "/" + filepath.Base(name), Entries: entries, Err: err})
	}
	return journals
}

func readJournal(name string) ([]apply.Entry, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	entries, _, err := apply.ReadJournal(file)
	return entries, err
}

// run is the result of a run of the command.
type run struct {
	invariant.Run
	output, errors string
}

// doctor runs the command in the round's folder, as a process that can be killed.
func (r *round) doctor(ctx context.Context, s *faultproxy.Session, args ...string) (run, error) {
	if err := os.MkdirAll(r.folder(), 0o700); err != nil {
		return run{}, err
	}
	config := filepath.Join(r.dir, s.Name+".kubeconfig")
	if err := s.WriteKubeconfig(config); err != nil {
		return run{}, err
	}
	var out, errOut bytes.Buffer
	binary := r.binary
	if binary == "" {
		dir, err := command.Build()
		if err != nil {
			return run{}, err
		}
		binary = filepath.Join(dir, command.Binary)
	}
	child := exec.CommandContext(ctx, binary, append(args, "--kubeconfig", config)...)
	child.Dir, child.Stdout, child.Stderr = r.folder(), &out, &errOut
	if err := child.Start(); err != nil {
		return run{}, err
	}
	ended := make(chan struct{})
	s.Kill = func() {
		_ = child.Process.Kill() // it may have ended by itself
		<-ended
	}
	_ = child.Wait() // its code says how it ended
	close(ended)
	result := run{
		Run:    invariant.Run{Name: s.Name, Code: child.ProcessState.ExitCode(), Said: command.WithoutProgress(out.String() + errOut.String())},
		output: out.String(), errors: errOut.String(),
	}
	var err error
	switch undone := args[0] == "undo"; {
	case result.Code == 0 && (undone || r.wrote(s.Name)):
		result.Left, err = r.left(ctx, undone)
	case result.Code > 0 && !undone && r.wrote(s.Name) && !strings.Contains(result.Said, toUndo) && !strings.Contains(result.Said, unknown):
		if name := r.leftAttachment(ctx); name != "" {
			result.Left = []string{name}
		}
	}
	if s.Renamed {
		result.Foreign = "its journal is of another server"
	}
	if undone := args[0] == "undo"; undone && r.attack.takenOver {
		result.Foreign = "the taint is the admin's own"
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, kind := range slices.Sorted(maps.Keys(r.missing[s.Name])) {
		if args[0] != "undo" || slices.Contains(r.story.undoReads(), kind) {
			result.Missing = append(result.Missing, kind)
		}
	}
	r.runs = append(r.runs, result.Run)
	return result, err
}

// wrote reports whether the session has sent a write.
func (r *round) wrote(session string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.sent {
		if strings.HasPrefix(id, session+".") {
			return true
		}
	}
	return false
}

// The words with which the command reports that it leaves an object of its own behind.
const (
	toUndo  = "undo has to take the first one back"
	unknown = "nobody knows whether"
)
