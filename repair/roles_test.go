package repair

import (
	"slices"
	"strings"
	"testing"
)

// unnamed are the permissions as a role has them: for objects of any name.
func unnamed(permissions []Permission) []string {
	var list []string
	for _, p := range permissions {
		p.Name, p.Namespace = "", ""
		list = append(list, p.String())
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// takes is the right that an operation takes.
func takes(op Operation) Permission {
	group, _, has := strings.Cut(op.Target.APIVersion, "/")
	if !has {
		group = ""
	}
	return Permission{Verb: op.Verb, Group: group, Resource: Resource(op.Target.Kind), Subresource: op.Subresource}
}

// TestRolesAreWhatIsAskedFor: the role of a kind is what its repairs say that
// they need, and what they write needs no more; the same of taking it back.
func TestRolesAreWhatIsAskedFor(t *testing.T) {
	undone := map[Kind]bool{}
	for _, world := range worlds {
		m := world(t)
		r := m.only()
		action, _ := actionOf(r.Kind)
		role := unnamed(action.needs)
		if needs := unnamed(r.Needs); !slices.Equal(needs, role) {
			t.Errorf("%s needs %v, and its role has %v", r.Kind, needs, role)
		}
		sink := repaired(t, m)
		for _, op := range m.stored {
			if right := takes(op).String(); !slices.Contains(role, right) {
				t.Errorf("%s does %q, and its role has %v", r.Kind, right, role)
			}
		}
		if len(m.stored) == 0 {
			t.Errorf("%s wrote nothing", r.Kind)
		}
		if action.undoNeeds != nil {
			role = unnamed(action.undoNeeds)
		}
		for _, w := range standing(sink.entries()) {
			back, err := w.reversal()
			if err != nil {
				t.Fatal(err)
			}
			undone[r.Kind] = true
			for _, needs := range unnamed(back.needs) {
				if !slices.Contains(role, needs) {
					t.Errorf("undo of %s needs %q, and its role has %v", r.Kind, needs, role)
				}
			}
			if action.undoNeeds != nil && !slices.Equal(unnamed(back.needs), role) {
				t.Errorf("undo of %s needs %v, and its role has %v", r.Kind, unnamed(back.needs), role)
			}
		}
	}
	for _, r := range actions() {
		if r.undoNeeds != nil && !undone[r.kind] {
			t.Errorf("%s is never undone here", r.kind)
		}
	}
}

func TestEveryKindHasARole(t *testing.T) {
	var names []string
	for _, role := range Roles() {
		names = append(names, role.Name)
		if len(role.Needs) < 2 || role.For == "" {
			t.Errorf("%+v", role)
		}
		for _, p := range role.Needs {
			if p.Name != "" || p.Namespace != "" {
				t.Errorf("role %s is for one object: %s", role.Name, p)
			}
		}
	}
	for _, kind := range Kinds() {
		if !slices.Contains(names, "repair-"+string(kind)) {
			t.Errorf("kind %s has no role", kind)
		}
	}
}
