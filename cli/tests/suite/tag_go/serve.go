// Runs until a line is read: goroutines whose stacks grow, others that must be preempted, and garbage collections.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
)

//go:noinline
func deep(n int, pad [64]int) int {
	if n == 0 {
		return pad[1]
	}
	pad[n%64] = n
	return deep(n-1, pad) + pad[(n+1)%64]
}

//go:noinline
func work(n int) int {
	sum := 0
	for i := 0; i < n; i++ {
		sum += i*i ^ n
	}
	return sum
}

func main() {
	var stop int32
	var all sync.WaitGroup
	for g := 0; g < 8; g++ {
		all.Add(1)
		go func(g int) {
			defer all.Done()
			for atomic.LoadInt32(&stop) == 0 {
				var inner sync.WaitGroup
				inner.Add(1)
				go func() { deep(30+g*7, [64]int{1, 2}); inner.Done() }()
				work(1000000)
				inner.Wait()
				if g == 0 {
					runtime.GC()
				}
			}
		}(g)
	}
	fmt.Println("ready")
	bufio.NewReader(os.Stdin).ReadString('\n')
	atomic.StoreInt32(&stop, 1)
	all.Wait()
	fmt.Println("end")
	os.Exit(5)
}
