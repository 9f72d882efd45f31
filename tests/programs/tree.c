// Builds, searches and frees a sorted tree, with recursive functions and a comparison called by pointer.
#include <stdio.h>
#include <stdlib.h>
typedef struct node { struct node *left, *right; unsigned long key; } node;
typedef int compare(unsigned long, unsigned long);
__attribute__((noipa)) int ascending(unsigned long a, unsigned long b) { return a < b ? -1 : a > b; }
__attribute__((noipa)) node *add(node *tree, unsigned long key, compare *order) {
    if (!tree) { tree = calloc(1, sizeof *tree); tree->key = key; return tree; }
    int side = order(key, tree->key);
    if (side < 0) tree->left = add(tree->left, key, order);
    else if (side > 0) tree->right = add(tree->right, key, order);
    return tree;
}
__attribute__((noipa)) int find(node *tree, unsigned long key, compare *order) {
    int side = tree ? order(key, tree->key) : 0;
    return !tree ? 0 : side == 0 ? 1 : 1 + find(side < 0 ? tree->left : tree->right, key, order);
}
__attribute__((noipa)) void discard(node *tree) {
    if (tree) { discard(tree->left); discard(tree->right); free(tree); }
}
int main(int count, char **words) {
    long nodes = count > 1 ? atol(words[1]) : 10000, depth = 0;
    node *tree = 0;
    for (long i = 0; i < nodes; i++) tree = add(tree, i * 2654435761ul % 1000003, ascending);
    for (long i = 0; i < 4 * nodes; i++) depth += find(tree, i * 2654435761ul % 1000003, ascending);
    discard(tree);
    printf("%ld\n", depth);
    return 0;
}
