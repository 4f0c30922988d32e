// Package sidebyside spreads work over the processors.
package sidebyside

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// turns is into how many parts the work of each processor is cut, so that none waits long
// for another that has got the harder ones.
const turns = 64

// Do does something about each place of a list, and returns when all is done. What it does
// about one place must not depend on what it does about another.
func Do(places int, do func(place int)) {
	workers := min(places, runtime.GOMAXPROCS(0))
	part := max(1, places/(turns*max(1, workers)))
	var next atomic.Int64
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for {
				to := int(next.Add(int64(part)))
				if to-part >= places {
					return
				}
				for place := to - part; place < min(to, places); place++ {
					do(place)
				}
			}
		})
	}
	running.Wait()
}
