package history

import (
	"math/rand/v2"
	"slices"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/world/driver"
)

// length is the length of a random history: half of it, at least, is left alone.
const length = 30 * time.Minute

// claimsOf are the names of the claims of a world.
func claimsOf(size Size) []string {
	var names []string
	for i := range size.Sets {
		for j := range size.Replicas {
			names = append(names, "data-db"+digit(i)+"-"+digit(j))
		}
	}
	for i := range size.Deployments {
		names = append(names, size.claimsOf("web"+digit(i))...)
	}
	return names
}

func digit(i int) string { return string(rune('0' + i)) }

// refusals are words that no table of the tool has, and some that it has.
var refusals = []struct {
	words string
	code  codes.Code
}{
	{"the disk is busy", codes.Internal},
	{"backend said: try another time", codes.Unavailable},
	{"operation for this volume is pending", codes.Aborted},
	{"rate limit exceeded", codes.ResourceExhausted},
	{"could not find volume", codes.NotFound},
	{"not authorized to perform this operation", codes.PermissionDenied},
}

// DrawSize draws a small world: a quarter has volumes that several nodes may have, and a
// quarter pods with two volumes.
func DrawSize(r *rand.Rand) Size {
	size := Small
	switch r.IntN(4) {
	case 0:
		size.Shared = true
	case 1:
		size.Two = true
	}
	return size
}

// Draw draws a random history of a world of the size.
func Draw(r *rand.Rand, size Size) History {
	h := History{Size: size, For: length}
	for range 1 + r.IntN(4) {
		h.Steps = append(h.Steps, drawStep(r, size)...)
	}
	if r.IntN(4) == 0 {
		h.Steps = append(h.Steps, drawByHand(r, size)...)
	}
	slices.SortStableFunc(h.Steps, func(a, b Step) int { return int(a.At - b.At) })
	return h
}

// drawStep draws a step, and one that makes it matter where there is one: nobody notices a
// driver that does not attach while no pod moves.
func drawStep(r *rand.Rand, size Size) []Step {
	claim := pick(r, claimsOf(size))
	s := Step{At: time.Minute + seconds(r, 10*time.Minute), Claim: claim, For: time.Minute + seconds(r, 9*time.Minute)}
	node := nodeName(r.IntN(size.Nodes))
	if r.IntN(2) == 0 {
		node = "@" + claim
	}
	at := func(do string) Step { return Step{At: s.At, Do: do, Node: node, For: s.For} }
	of := func(do string) Step { return Step{At: s.At, Do: do, Claim: claim} }
	move := func() Step {
		return Step{At: s.At + time.Second + seconds(r, time.Minute), Do: "drain", Node: "@" + claim, For: s.For + 5*time.Minute}
	}
	switch r.IntN(21) {
	case 0, 1:
		return []Step{at("drain")}
	case 2:
		return []Step{at("stop the kubelet")}
	case 3:
		off := at("switch off")
		if r.IntN(2) == 0 {
			off.For = 0
		}
		if r.IntN(3) == 0 {
			taint := off
			taint.Do, taint.At = "taint out-of-service", off.At+time.Minute+seconds(r, 8*time.Minute)
			return []Step{off, taint}
		}
		return []Step{off}
	case 4, 5, 6:
		s.Do, s.Fault = "break", drawFault(r)
		if r.IntN(3) == 0 {
			s.Claim = ""
		}
		if r.IntN(4) == 0 {
			s.Node = nodeName(r.IntN(size.Nodes))
		}
		return []Step{s, move()}
	case 7:
		return []Step{of("delete the pod")}
	case 8:
		return []Step{of("force-delete the pod")}
	case 9:
		keep := of("keep the containers")
		keep.For = s.For
		return []Step{keep}
	case 10:
		return []Step{at("stop the manager"), move()}
	case 11:
		return []Step{at("stop the attacher"), move()}
	case 12:
		return []Step{of(pick(r, []string{"delete the attachment", "strip the attachment"}))}
	case 13:
		return []Step{of("drop the entry"), move()}
	case 14:
		return []Step{at("delete the node")}
	case 15:
		return []Step{of("evict for pressure")}
	case 16:
		refuse := of("refuse evictions")
		refuse.For = s.For
		return []Step{refuse, move()}
	case 17:
		return []Step{{At: s.At, Do: "run a job", For: s.For}}
	case 18:
		return []Step{{At: s.At, Do: "slow requests", For: s.For}, move()}
	case 19:
		second := of("run a second pod")
		second.For = s.For
		return []Step{second}
	default:
		return []Step{of(pick(r, []string{"remake the claim", "cut all watches"}))}
	}
}

// drawByHand draws something that is changed by hand; in half of them the pod moves after it.
func drawByHand(r *rand.Rand, size Size) []Step {
	claim := pick(r, claimsOf(size))
	s := Step{At: time.Minute + seconds(r, 10*time.Minute), Do: pick(r, byHand), For: time.Second + seconds(r, 10*time.Minute)}
	switch s.Do {
	case "delete the CSIDriver":
	case "take the annotation":
		s.Node = "@" + claim
	case "delete the claim", "delete the volume":
		s.Claim, s.For = claim, 0
	default:
		s.Claim = claim
	}
	if r.IntN(2) == 0 {
		return []Step{s}
	}
	return []Step{s, {At: s.At + time.Second + seconds(r, time.Minute), Do: "drain", Node: "@" + claim, For: 5 * time.Minute}}
}

func drawFault(r *rand.Rand) driver.Fault {
	f := driver.Fault{Call: pick(r, []driver.Call{driver.Attach, driver.Attach, driver.Detach, driver.Detach, driver.Stage, driver.Unstage, driver.Publish, driver.Unpublish})}
	switch r.IntN(4) {
	case 0:
		f.Hangs = true
	case 1:
		f.After = time.Second + seconds(r, time.Minute)
	default:
		words := pick(r, refusals)
		f.Words, f.Code = words.words, words.code
	}
	f.Done = r.IntN(8) == 0
	return f
}

func pick[T any](r *rand.Rand, of []T) T { return of[r.IntN(len(of))] }

func seconds(r *rand.Rand, below time.Duration) time.Duration {
	return time.Duration(r.IntN(int(below/time.Second))) * time.Second
}
