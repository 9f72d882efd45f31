// Calls a function in C, which calls back.
package main

/*
long called_back(long n);
static long twice(long n) { return n < 2 ? n : called_back(n - 1) + 2; }
static long call_c(long n) { return twice(n); }
*/
import "C"

import (
	"fmt"
	"sync"
)

//export called_back
func called_back(n C.long) C.long { return C.call_c(n) + 1 }

func main() {
	var all sync.WaitGroup
	sums := make([]C.long, 8)
	for g := range sums {
		all.Add(1)
		go func(g int) {
			defer all.Done()
			for i := 0; i < 20; i++ {
				sums[g] += C.call_c(C.long(g))
			}
		}(g)
	}
	all.Wait()
	fmt.Println(sums)
}
