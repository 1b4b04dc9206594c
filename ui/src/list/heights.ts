// Where rows of different heights begin, for a list that draws only what is visible. Finding the
// row at a place and changing a height take logarithmic time (a Fenwick tree), also with 100,000 rows.

export class Heights {
  private tree: Float64Array;
  private own: Float32Array;
  private n = 0;

  constructor(private estimate: number, capacity = 1024) {
    this.tree = new Float64Array(capacity + 1);
    this.own = new Float32Array(capacity);
  }

  get length(): number { return this.n; }
  get total(): number { return this.top(this.n); }

  /** Makes the list `n` long; new rows get the estimate, rows beyond the end are forgotten. */
  resize(n: number): void {
    if (n === this.n) return;
    if (n > this.own.length) {
      const own = new Float32Array(Math.max(n, this.own.length * 2));
      own.set(this.own.subarray(0, this.n));
      this.own = own;
    }
    if (n > this.n) this.own.fill(this.estimate, this.n, n);
    this.n = n;
    this.build();
  }

  /** Adds `k` rows in front, whose heights are not known yet. */
  prepend(k: number): void {
    const own = new Float32Array(Math.max(this.n + k, this.own.length));
    own.fill(this.estimate, 0, k);
    own.set(this.own.subarray(0, this.n), k);
    this.own = own;
    this.n += k;
    this.build();
  }

  /** Removes `k` rows from the front. */
  drop(k: number): void {
    this.own.copyWithin(0, k, this.n);
    this.n -= k;
    this.build();
  }

  /** All rows get this height again. */
  reset(estimate: number): void {
    this.estimate = estimate;
    this.own.fill(estimate, 0, this.n);
    this.build();
  }

  private build(): void {
    if (this.tree.length < this.n + 1) this.tree = new Float64Array(this.own.length + 1);
    const t = this.tree;
    t[0] = 0;
    for (let i = 1; i <= this.n; i++) t[i] = this.own[i - 1]!;
    for (let i = 1; i <= this.n; i++) {
      const up = i + (i & -i);
      if (up <= this.n) t[up]! += t[i]!;
    }
  }

  height(i: number): number { return this.own[i] ?? this.estimate; }

  /** Sets the height of a row, and tells by how much it changed. */
  set(i: number, height: number): number {
    const by = height - this.own[i]!;
    if (by === 0 || i >= this.n) return 0;
    this.own[i] = height;
    for (let k = i + 1; k <= this.n; k += k & -k) this.tree[k]! += by;
    return by;
  }

  /** Where row `i` begins: the sum of the heights before it. */
  top(i: number): number {
    let sum = 0;
    for (let k = Math.min(i, this.n); k > 0; k -= k & -k) sum += this.tree[k]!;
    return sum;
  }

  /** The row at a place; the first or last one for places outside. */
  at(y: number): number {
    let i = 0;
    let rest = y;
    for (let step = 2 ** Math.floor(Math.log2(Math.max(1, this.n))); step >= 1; step /= 2) {
      if (i + step <= this.n && this.tree[i + step]! <= rest) {
        i += step;
        rest -= this.tree[i]!;
      }
    }
    return Math.max(0, Math.min(i, this.n - 1));
  }

  /** The rows that touch the window from `y`, `height` high, with some more on both sides. */
  window(y: number, height: number, over: number): [number, number] {
    if (this.n === 0) return [0, 0];
    return [Math.max(0, this.at(y) - over), Math.min(this.n, this.at(y + height) + 1 + over)];
  }
}
