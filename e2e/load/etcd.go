package load

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"maps"
	"path"
	"reflect"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// Backdate makes a VolumeAttachment older than it is. It writes to etcd, because an API server
// takes no time of creation from its clients.
func Backdate(ctx context.Context, etcd, attachment string, by time.Duration) error {
	aged, err := Age(ctx, etcd, by, func(o Object) bool {
		_, is := o.(*storagev1.VolumeAttachment)
		return is && o.GetName() == attachment
	})
	if err == nil && aged == 0 {
		err = fmt.Errorf("there is no VolumeAttachment %s", attachment)
	}
	return err
}

// agedFolders are where the API server keeps the kinds that Age looks at, and what it
// keeps there.
var agedFolders = map[string]func() Object{
	"volumeattachments":      func() Object { return &storagev1.VolumeAttachment{} },
	"pods":                   func() Object { return &corev1.Pod{} },
	"minions":                func() Object { return &corev1.Node{} },
	"persistentvolumes":      func() Object { return &corev1.PersistentVolume{} },
	"persistentvolumeclaims": func() Object { return &corev1.PersistentVolumeClaim{} },
	"csinodes":               func() Object { return &storagev1.CSINode{} },
}

// Age makes the objects that are wanted older, as if so much time had gone by since each
// moment that they show: a test has not that much time, and a clock that is ahead would be
// one that is wrong. It returns how many there were.
func Age(ctx context.Context, etcd string, by time.Duration, wanted func(Object) bool) (int, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{etcd}})
	if err != nil {
		return 0, fmt.Errorf("write to etcd: %w", err)
	}
	defer func() { _ = client.Close() }() // nothing is under way any more
	aged := 0
	for _, folder := range slices.Sorted(maps.Keys(agedFolders)) {
		all, err := client.Get(ctx, path.Join("/registry", folder)+"/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
		if err != nil {
			return aged, fmt.Errorf("read from etcd: %w", err)
		}
		for _, kv := range all.Kvs {
			done, err := ageOne(ctx, client, string(kv.Key), agedFolders[folder](), by, wanted)
			if err != nil {
				return aged, err
			}
			if done {
				aged++
			}
		}
	}
	return aged, nil
}

// ageOne makes the object at the key older, if it is there and wanted. into is an empty one.
func ageOne(ctx context.Context, client *clientv3.Client, key string, into Object, by time.Duration, wanted func(Object) bool) (bool, error) {
	codec := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	for {
		got, err := client.Get(ctx, key)
		if err != nil {
			return false, fmt.Errorf("read from etcd: %w", err)
		}
		if len(got.Kvs) == 0 {
			return false, nil // it has gone meanwhile
		}
		o := reflect.New(reflect.TypeOf(into).Elem()).Interface().(Object)
		if _, _, err := codec.Decode(got.Kvs[0].Value, nil, o); err != nil {
			return false, fmt.Errorf("decode %s: %w", key, err)
		}
		if !wanted(o) {
			return false, nil
		}
		shift(reflect.ValueOf(o).Elem(), by)
		op, err := stored(o)
		if err != nil {
			return false, err
		}
		// Somebody may have written it meanwhile.
		put, err := client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", got.Kvs[0].ModRevision)).Then(op).Commit()
		if err != nil {
			return false, fmt.Errorf("write to etcd: %w", err)
		}
		if put.Succeeded {
			return true, nil
		}
	}
}

// shift moves each moment in the value back.
func shift(v reflect.Value, by time.Duration) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			shift(v.Elem(), by)
		}
	case reflect.Slice:
		for i := range v.Len() {
			shift(v.Index(i), by)
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[metav1.Time]() || v.Type() == reflect.TypeFor[metav1.MicroTime]() {
			if at := v.FieldByName("Time").Addr().Interface().(*time.Time); !at.IsZero() {
				*at = at.Add(-by)
			}
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				shift(v.Field(i), by)
			}
		}
	default: // no moment is in it
	}
}
