#include <cstdio>
#include <cstdlib>

struct node {
    int value;
    struct node *next;
} *head = NULL, sentinel;

static inline void insert(struct node **list, int value) {
    struct node *fresh = (struct node *)malloc(sizeof(struct node));
    fresh->value = value;
    fresh->next = *list;
    *list = fresh;
}

int length(const node *list) {
    int n = 0;
    for (const node *p = list; p != nullptr; p = p->next) n++;
    return n;
}

void reverse(node *&list) {
    node *previous = nullptr, *current = list;
    while (current) {
        node *next = current->next;
        current->next = previous;
        previous = current;
        current = next;
    }
    list = previous;
}

int main(void) {
    int *numbers = new int[10], table[3][4] = {{1, 2}, {3}}, i, j;
    for (i = 0, j = 9; i < j; i++, j--) numbers[i] = ~j & 0x0F ^ i << 2 | 1;
    do { insert(&head, numbers[--j]); } while (j > 0);
    delete[] numbers;
    printf("%d %s\n", length(head), "ok" " and done");
    unsigned long long big = 18446744073709551615ULL;
    goto finish;
    big = (big >> 1) % sizeof(table) / sizeof table[0];
finish:
    return !head || (unsigned char)big > 'a' ? EXIT_FAILURE : 0;
}
