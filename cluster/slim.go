package cluster

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// drops says, by their numbers, which fields of a message go before it is
// decoded: nil is all of a field, anything else what goes of the message in it.
// Whatever stands here snapshot.Trim would drop afterwards; that half of each
// object need not be made only to be thrown away.
type drops map[protowire.Number]drops

var (
	dropsOfContainer = drops{
		3: nil, 4: nil, 5: nil, 6: nil, 7: nil, 8: nil, // command, args, workingDir, ports, env, resources
		10: nil, 11: nil, 12: nil, 13: nil, 14: nil, // probes, lifecycle, terminationMessagePath, imagePullPolicy
		19: nil, 20: nil, 22: nil, 23: nil, 25: nil, // envFrom, terminationMessagePolicy, startupProbe, resizePolicy, restartPolicyRules
	}
	dropsOfStatus = drops{7: nil, 10: nil, 11: nil, 12: nil, 13: nil, 14: nil} // imageID, resources, volumeMounts, user
	dropsOfMeta   = drops{17: nil}                                             // managedFields

	dropsOf = map[snapshot.Kind]drops{
		snapshot.Pods: {
			1: dropsOfMeta,
			2: {2: dropsOfContainer, 20: dropsOfContainer, 34: {1: dropsOfContainer}},
			3: {8: dropsOfStatus, 10: dropsOfStatus, 13: dropsOfStatus},
		},
		snapshot.Nodes:             {3: {8: nil}}, // images; some of the managed fields are kept
		snapshot.Volumes:           {1: dropsOfMeta},
		snapshot.Claims:            {1: dropsOfMeta},
		snapshot.VolumeAttachments: {1: dropsOfMeta},
		snapshot.CSINodes:          {1: dropsOfMeta},
		snapshot.Leases:            {1: dropsOfMeta},
		snapshot.Events:            {1: dropsOfMeta},
		snapshot.Deployments:       {1: dropsOfMeta},
	}
)

// slim appends a message to out, without what goes. It says whether it could be
// read; what could not is for the real decoder.
func slim(out, message []byte, drop drops) ([]byte, bool) {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return nil, false
		}
		size := protowire.ConsumeFieldValue(number, kind, message[n:])
		if size < 0 {
			return nil, false
		}
		field := message[:n+size]
		message = message[n+size:]
		inner, some := drop[number]
		switch {
		case !some || kind != protowire.BytesType:
			out = append(out, field...)
		case inner != nil:
			value, _ := protowire.ConsumeBytes(field[n:]) // ConsumeFieldValue has read it
			out = protowire.AppendTag(out, number, kind)
			at := len(out)
			var ok bool
			if out, ok = slim(out, value, inner); !ok {
				return nil, false
			}
			out = prefixed(out, at)
		}
	}
	return out, true
}

// prefixed puts the length of what stands from at on before it.
func prefixed(out []byte, at int) []byte {
	size := len(out) - at
	var length [10]byte
	prefix := protowire.AppendVarint(length[:0], uint64(size))
	out = append(out, prefix...)
	copy(out[at+len(prefix):], out[at:at+size])
	copy(out[at:], prefix)
	return out
}
