import { snippetCompletion, type Completion } from '@codemirror/autocomplete';

const word = (label: string, detail: string, template?: string): Completion =>
  template ? snippetCompletion(template, { label, detail, boost: 1 }) : { label, detail, boost: 1 };

export const STAGES: Completion[] = [
  word('json', 'parse JSON'), word('logfmt', 'parse key=value'), word('unpack', 'parse packed JSON'), word('decolorize', 'without ANSI colours'),
  word('pattern', 'parse by a pattern', 'pattern "${<name> <_>}"'), word('regexp', 'parse by an expression', 'regexp "${(?P<name>\\\\S+)}"'),
  word('line_format', 'write the line anew', 'line_format "${{{.name}}}"'), word('label_format', 'rename or make labels', 'label_format ${new}=${old}'),
  word('keep', 'only these labels'), word('drop', 'without these labels'), word('unwrap', 'use a field as number'),
  word('detected_level', 'level of the line', 'detected_level="${error}"'),
];

const overTime = ['count_over_time', 'rate', 'bytes_over_time', 'bytes_rate', 'absent_over_time'];
const unwrapped = ['sum_over_time', 'avg_over_time', 'min_over_time', 'max_over_time', 'first_over_time', 'last_over_time', 'stddev_over_time', 'stdvar_over_time', 'rate_counter'];
const sums = ['sum', 'avg', 'min', 'max', 'count', 'stddev', 'stdvar'];

export const FUNCTIONS: Completion[] = [
  ...overTime.map((f) => word(f, 'of lines', f + '({${service_name=~".+"}} [$__auto])')),
  ...unwrapped.map((f) => word(f, 'of a field', f + '({${service_name=~".+"}} | logfmt | unwrap ${field} [$__auto])')),
  word('quantile_over_time', 'of a field', 'quantile_over_time(0.99, {${service_name=~".+"}} | logfmt | unwrap ${field} [$__auto])'),
  ...sums.map((f) => word(f, 'over series', f + ' by (${label}) (${})')),
  word('topk', 'largest series', 'topk(${10}, ${})'), word('bottomk', 'smallest series', 'bottomk(${10}, ${})'),
  word('sort', 'by value', 'sort(${})'), word('sort_desc', 'by value', 'sort_desc(${})'),
];
