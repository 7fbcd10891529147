type Optional<Fields> = {
  [Name in keyof Fields]: undefined extends Fields[Name] ? Name : never;
}[keyof Fields];

/** The fields without those that are undefined. */
export type Defined<Fields> = Omit<Fields, Optional<Fields>> & {
  [Name in Optional<Fields>]?: Exclude<Fields[Name], undefined>;
};

/** Leaves out fields that are undefined, so that they are absent. */
export function omitUndefined<Fields extends object>(fields: Fields): Defined<Fields> {
  const entries = Object.entries(fields).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as Defined<Fields>;
}
