package load

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"path"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
)

const (
	// perTransaction keeps a transaction below etcd's limits, of 128 operations
	// and 1.5 MB.
	perTransaction = 50
	writers        = 4
)

// Write puts objects into etcd as an API server keeps them: in protobuf, behind
// the bytes "k8s\x00", under /registry.
func Write(ctx context.Context, etcd string, objects iter.Seq[Object]) error {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{etcd}})
	if err != nil {
		return fmt.Errorf("write to etcd: %w", err)
	}
	defer func() { _ = client.Close() }() // nothing is under way any more
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	batches := make(chan []clientv3.Op, writers)
	var writing sync.WaitGroup
	for range writers {
		writing.Go(func() {
			for batch := range batches {
				if _, err := client.Txn(ctx).Then(batch...).Commit(); err != nil {
					cancel(err)
				}
			}
		})
	}
	var batch []clientv3.Op
	send := func() {
		batches <- batch
		batch = nil
	}
	for o := range objects {
		op, err := stored(o)
		if err != nil {
			cancel(err)
		}
		if ctx.Err() != nil {
			break
		}
		if batch = append(batch, op); len(batch) == perTransaction {
			send()
		}
	}
	send()
	close(batches)
	writing.Wait()
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("write to etcd: %w", err)
	}
	return nil
}

func stored(o Object) (clientv3.Op, error) {
	kinds, _, err := scheme.Scheme.ObjectKinds(o)
	if err != nil {
		return clientv3.Op{}, err
	}
	o.GetObjectKind().SetGroupVersionKind(kinds[0])
	var value bytes.Buffer
	if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(o, &value); err != nil {
		return clientv3.Op{}, err
	}
	return clientv3.OpPut(path.Join("/registry", folder(o), o.GetNamespace(), o.GetName()), value.String()), nil
}

// folder is where an API server keeps the kind.
func folder(o Object) string {
	switch o.(type) {
	case *corev1.Pod:
		return "pods"
	case *corev1.Node:
		return "minions"
	case *corev1.Namespace:
		return "namespaces"
	case *corev1.PersistentVolume:
		return "persistentvolumes"
	case *corev1.PersistentVolumeClaim:
		return "persistentvolumeclaims"
	case *storagev1.VolumeAttachment:
		return "volumeattachments"
	case *storagev1.CSINode:
		return "csinodes"
	case *storagev1.CSIDriver:
		return "csidrivers"
	case *storagev1.StorageClass:
		return "storageclasses"
	case *coordinationv1.Lease:
		return "leases"
	default:
		panic(fmt.Sprintf("nobody knows where an API server keeps a %T", o))
	}
}

// Backdate makes a VolumeAttachment older than it is: what an API server writes as
// the time of creation, nobody can ask it to write otherwise.
func Backdate(ctx context.Context, etcd, attachment string, by time.Duration) error {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{etcd}})
	if err != nil {
		return fmt.Errorf("write to etcd: %w", err)
	}
	defer func() { _ = client.Close() }() // nothing is under way any more
	codec := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	for {
		key := path.Join("/registry", "volumeattachments", attachment)
		got, err := client.Get(ctx, key)
		if err != nil {
			return fmt.Errorf("read from etcd: %w", err)
		}
		if len(got.Kvs) == 0 {
			return fmt.Errorf("there is no VolumeAttachment %s", attachment)
		}
		va := &storagev1.VolumeAttachment{}
		if _, _, err := codec.Decode(got.Kvs[0].Value, nil, va); err != nil {
			return fmt.Errorf("decode VolumeAttachment %s: %w", attachment, err)
		}
		va.CreationTimestamp.Time = va.CreationTimestamp.Add(-by)
		op, err := stored(va)
		if err != nil {
			return err
		}
		// The attacher may have written it meanwhile.
		put, err := client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", got.Kvs[0].ModRevision)).Then(op).Commit()
		if err != nil {
			return fmt.Errorf("write to etcd: %w", err)
		}
		if put.Succeeded {
			return nil
		}
	}
}
