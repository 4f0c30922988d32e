package chaos_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/volume-doctor/kubectl-volume-doctor/repair"
	"github.com/volume-doctor/kubectl-volume-doctor/repair/apply"
)

// reviewedFile is the file of the saved repairs, in a round's folder.
const reviewedFile = "repairs.json"

// review is what happens to the file between the run that saves it and the run that makes its
// repairs.
type review string

const (
	asSaved review = "reviewed repairs"
	// edited changes the repair's object to another of the same kind.
	edited review = "reviewed repairs that were edited"
)

// approving is a run with a file of reviewed repairs.
func approving(what review, strikes ...strike) attack {
	a := struck(strikes...)
	a.reviewed = what
	return a
}

// review saves the repairs without faults and edits the file. session is the one in which they
// will be made.
func (r *round) review(ctx context.Context, session string) error {
	saving, err := r.doctor(ctx, r.session("saving", journal, nil), r.repairs("--save-repairs", reviewedFile)...)
	if err != nil {
		return err
	}
	name := filepath.Join(r.folder(), reviewedFile)
	text, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("%w: exit code %d: %s", err, saving.Code, saving.Said)
	}
	file, err := apply.ReadApproved(bytes.NewReader(text))
	if err != nil {
		return err
	}
	if len(file.Repairs) != 1 {
		return fmt.Errorf("%d repairs were saved, not one: %s", len(file.Repairs), saving.Said)
	}
	if r.attack.reviewed == edited {
		target := &file.Repairs[0].Do.Target
		target.Name = strings.ToLower("another-" + target.Kind)
		if text, err = json.Marshal(file); err != nil {
			return err
		}
		if err := os.WriteFile(name, text, 0o600); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.approved[session] = []repair.Operation{file.Repairs[0].Do}
	return nil
}
