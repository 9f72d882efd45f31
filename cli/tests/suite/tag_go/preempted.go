// A hot function that the runtime preempts by signals, in a program whose signal handlers are the C library's.
package main

// static int one(void) { return 1; }
import "C"
import (
	"fmt"
	"runtime"
)

const (
	rounds = 40
	calls  = 5000000
)

//go:noinline
func leaf(a, b uint64) uint64 {
	a ^= b
	a = a*5 + 1
	b |= a
	return a ^ (b >> 3) + a*b
}

func main() {
	done := make(chan uint64)
	go func() {
		state := uint64(C.one())
		for round := 0; round < rounds; round++ {
			for i := uint64(0); i < calls; i++ {
				state = leaf(state, i)
			}
		}
		done <- state
	}()
	for {
		select {
		case state := <-done:
			fmt.Println("state", state)
			fmt.Println("leaf", rounds*calls)
			return
		default:
			// Stops all goroutines, by signals where they run.
			runtime.GC()
		}
	}
}
