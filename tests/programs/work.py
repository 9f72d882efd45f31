# Works with numbers, strings, dictionaries, classes and closures. The argument is the number of rounds.
import sys


class Node:
    def __init__(self, value):
        self.value, self.left, self.right = value, None, None

    def add(self, value):
        side = "left" if value < self.value else "right"
        child = getattr(self, side)
        if child is None:
            setattr(self, side, Node(value))
        else:
            child.add(value)

    def depth(self):
        below = [child.depth() for child in (self.left, self.right) if child]
        return 1 + max(below, default=0)


total = 0
for turn in range(int(sys.argv[1])):
    numbers = [i * 7919 % 1009 + turn for i in range(2000)]
    numbers.sort(key=lambda number: -number)
    words = {}
    for word in ("the quick brown fox jumps " * 200).split():
        words[word] = words.get(word, 0) + 1
    root = Node(500)
    for number in numbers[:300]:
        root.add(number * 31 % 1000)
    total += root.depth() + sum(words.values()) + len(",".join(map(str, numbers)))
print(total)
