package cluster

import (
	"errors"
	"fmt"
	"io"
	"time"
)

// What an API server, or whoever answers in its place, can make us hold, read or
// wait for. SECURITY.md lists the same numbers.
const (
	// maxItem bounds one object in protobuf. No object can be larger: an API server
	// takes requests of 3 MiB, and etcd values of 1.5.
	maxItem = 16 << 20
	// maxObjects bounds one list. Kubernetes is tested with 150,000 pods.
	maxObjects = 1_000_000
	// maxAnswer bounds one answer that is decoded as it arrives: 150,000 pods of
	// 10 KB in one page are 1.5 GB.
	maxAnswer = 4 << 30
	// maxJSON bounds one page in JSON, which is held as a whole: 5,000 pods of 50 KB
	// are 250 MB.
	maxJSON = 256 << 20
	// maxEmptyPages bounds the pages of a list that hold no object and promise
	// more. An API server fills its pages.
	maxEmptyPages = 100
	// maxVersion bounds the answer of /version, which is 400 bytes.
	maxVersion = 64 << 10
	// maxRefusal bounds the body of an error. An API server says why in 3 MiB at
	// most, the size of the request that it refuses.
	maxRefusal = 4 << 20
	// maxRetryAfter bounds how long an API server can ask us to wait. Its priority
	// and fairness asks for 32 seconds at most.
	maxRetryAfter = time.Minute
	// maxWait bounds one request with its answer where --request-timeout does not.
	// An API server ends a request after a minute, by default.
	maxWait = 5 * time.Minute
	// maxRedirects bounds the redirects on one host.
	maxRedirects = 3
)

// limitError says that an answer exceeds one of the bounds. To ask again would not
// help.
type limitError struct{ text string }

func (e *limitError) Error() string { return e.text }

func tooMuch(what string, limit int64) error {
	return &limitError{fmt.Sprintf("%s is larger than %d MiB", what, limit>>20)}
}

func isLimit(err error) bool {
	var limit *limitError
	return errors.As(err, &limit)
}

// bounded fails, rather than ends, where more is read than it may.
type bounded struct {
	in   io.Reader
	left int64
	// err is what it fails with.
	err error
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, b.err
	}
	// One byte more than allowed tells an answer that is too long from one that
	// ends there.
	n, err := b.in.Read(p[:min(int64(len(p)), b.left+1)])
	b.left -= int64(n)
	if b.left < 0 {
		return n - 1, b.err
	}
	return n, err
}
