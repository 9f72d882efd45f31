// Runs many goroutines and counts its own calls: each counted function increments its own counter, so that the counts
// of tags can be compared.
package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sort"
	"sync"
	"sync/atomic"
	"time"
)

// Calls of each function that counts itself.
var leafs, deeps, sends, panics, recovers, ticks, spins, methods int64

//go:noinline
func leaf(n int) int { atomic.AddInt64(&leafs, 1); return n*3 + 1 }

// The frame is large, so that stacks grow often.
//
//go:noinline
func deep(n int, pad [64]int) int {
	atomic.AddInt64(&deeps, 1)
	if n == 0 {
		return pad[3]
	}
	pad[n%64] = leaf(n)
	return deep(n-1, pad) + pad[(n+1)%64]
}

//go:noinline
func send(to chan<- int, n int) { atomic.AddInt64(&sends, 1); to <- n }

type box struct{ value int }

//go:noinline
func (b *box) get() int { atomic.AddInt64(&methods, 1); return b.value }

//go:noinline
func fail(kind int) int {
	atomic.AddInt64(&panics, 1)
	switch kind % 4 {
	case 0:
		panic(errors.New("made up"))
	case 1:
		var none *box
		return none.value
	case 2:
		var few []int
		return few[kind]
	default:
		return kind / (kind - kind)
	}
}

//go:noinline
func caught(kind int) (result int) {
	atomic.AddInt64(&recovers, 1)
	defer func() {
		if what := recover(); what != nil {
			result = len(fmt.Sprint(what))
		}
	}()
	return fail(kind)
}

// Runs until another goroutine has run, so that the runtime must preempt it.
//
//go:noinline
func spin(until *int32) int {
	atomic.AddInt64(&spins, 1)
	turns := 0
	for atomic.LoadInt32(until) == 0 {
		turns++
	}
	return turns & 0
}

//go:noinline
func tick() { atomic.AddInt64(&ticks, 1) }

func main() {
	sum := 0
	var lock sync.Mutex
	var all sync.WaitGroup
	channel := make(chan int, 3)
	for g := 0; g < 40; g++ {
		all.Add(1)
		go func(g int) {
			defer all.Done()
			own := deep(g*5, [64]int{1, 2, 3, 4})
			for i := 0; i < 20; i++ {
				own += caught(g + i)
				send(channel, i)
			}
			b := &box{g}
			own += b.get()
			lock.Lock()
			sum += own
			lock.Unlock()
		}(g)
	}
	var got sync.WaitGroup
	got.Add(1)
	received := 0
	go func() {
		defer got.Done()
		for n := range channel {
			received += n
		}
	}()
	var stop int32
	for s := 0; s < 2; s++ {
		all.Add(1)
		go func() { defer all.Done(); spin(&stop) }()
	}
	for i := 0; i < 5; i++ {
		time.AfterFunc(time.Millisecond, tick)
		runtime.GC()
	}
	time.Sleep(3 * time.Millisecond)
	for atomic.LoadInt64(&ticks) < 5 {
		time.Sleep(time.Millisecond)
	}
	atomic.StoreInt32(&stop, 1)
	all.Wait()
	close(channel)
	got.Wait()
	counts := map[string]int64{
		"leaf": leafs, "deep": deeps, "send": sends, "fail": panics, "caught": recovers,
		"tick": ticks, "spin": spins, "(*box).get": methods,
	}
	var names []string
	for name := range counts {
		names = append(names, name)
	}
	sort.Strings(names)
	fmt.Println(sum, received)
	for _, name := range names {
		fmt.Println(name, counts[name])
	}
	os.Exit(7)
}
