/** A row of CSV (RFC 4180). Values stay as they are: spreadsheets may read some as formulas. */
export const csvRow = (values: readonly string[]): string =>
  values.map((v) => (/[",\r\n]/.test(v) ? `"${v.replaceAll('"', '""')}"` : v)).join(',') + '\r\n';
