// Finds frequent sets of items in a prefix tree: `itemsets TRANSACTIONS`.
//
// The method is FP-growth (Han, Pei, Yin 2000): transactions, their items by descending frequency, are paths of a tree whose
// nodes count them. For each item the paths above its nodes make a smaller tree, in which longer sets are found.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ITEMS = 60, LENGTH = 12 };

struct node {
    int item, count;
    struct node *parent, *child, *sibling, *same;
};

struct tree {
    struct node *root, *heads[ITEMS];
    int counts[ITEMS];
};

static unsigned long state = 42, sets, support;

static unsigned below(unsigned limit) {
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return (unsigned)((state * 0x2545f4914f6cdd1dul) >> 33) % limit;
}

static struct node *new_node(int item, struct node *parent) {
    struct node *node = calloc(1, sizeof *node);
    if (!node)
        exit(1);
    node->item = item;
    node->parent = parent;
    return node;
}

static void insert(struct tree *tree, const int *items, int length, int count) {
    struct node *at = tree->root;
    for (int i = 0; i < length; i++) {
        struct node *next = at->child;
        while (next && next->item != items[i])
            next = next->sibling;
        if (!next) {
            next = new_node(items[i], at);
            next->sibling = at->child;
            at->child = next;
            next->same = tree->heads[items[i]];
            tree->heads[items[i]] = next;
        }
        next->count += count;
        tree->counts[items[i]] += count;
        at = next;
    }
}

static void release(struct node *node) {
    while (node) {
        struct node *next = node->sibling;
        release(node->child);
        free(node);
        node = next;
    }
}

// Finds the sets that end with a set of `depth` items, and adds up their counts.
static void grow(const struct tree *tree, int least, int depth) {
    for (int item = ITEMS - 1; item >= 0; item--) {
        if (tree->counts[item] < least)
            continue;
        sets++;
        support += (unsigned long)tree->counts[item] * depth;
        struct tree smaller;
        memset(&smaller, 0, sizeof smaller);
        smaller.root = new_node(-1, NULL);
        int counts[ITEMS] = {0};
        for (struct node *node = tree->heads[item]; node; node = node->same)
            for (struct node *up = node->parent; up->item >= 0; up = up->parent)
                counts[up->item] += node->count;
        for (struct node *node = tree->heads[item]; node; node = node->same) {
            int items[LENGTH], length = 0;
            for (struct node *up = node->parent; up->item >= 0; up = up->parent)
                if (counts[up->item] >= least)
                    items[LENGTH - ++length] = up->item;
            insert(&smaller, items + LENGTH - length, length, node->count);
        }
        grow(&smaller, least, depth + 1);
        release(smaller.root);
    }
}

int main(int argc, char **argv) {
    int transactions = argc > 1 ? atoi(argv[1]) : 1000;
    struct tree tree;
    memset(&tree, 0, sizeof tree);
    tree.root = new_node(-1, NULL);
    for (int i = 0; i < transactions; i++) {
        // Low items are frequent, so ascending items have descending frequencies.
        char has[ITEMS] = {0};
        int items[LENGTH], length = 0;
        for (int j = 0; j < LENGTH; j++)
            has[below(1 + below(ITEMS))] = 1;
        for (int item = 0; item < ITEMS && length < LENGTH; item++)
            if (has[item])
                items[length++] = item;
        insert(&tree, items, length, 1);
    }
    grow(&tree, transactions / 50 + 1, 1);
    release(tree.root);
    printf("%lu sets %lu\n", sets, support);
    return 0;
}
