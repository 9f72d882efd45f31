// Reserves a terabyte that it does not touch, and calls a function when a line comes.
package main

import (
	"bufio"
	"fmt"
	"os"
	"syscall"
)

//go:noinline
func work(n int) int {
	return n*3 + 1
}

func main() {
	const flags = syscall.MAP_PRIVATE | syscall.MAP_ANON | syscall.MAP_NORESERVE
	memory, err := syscall.Mmap(-1, 0, 1<<40, syscall.PROT_READ|syscall.PROT_WRITE, flags)
	if err != nil {
		fmt.Println("none")
		return
	}
	fmt.Println("ready")
	bufio.NewReader(os.Stdin).ReadString('\n')
	sum := 0
	for i := 0; i < 10; i++ {
		sum = work(sum)
	}
	fmt.Println("end", sum, memory[0])
	os.Exit(5)
}
