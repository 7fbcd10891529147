/** Whether the text of a pattern has a `*` or `?` that stands for other characters. */
export function isGlob(pattern: string): boolean {
  return pattern.includes("*") || pattern.includes("?");
}

/**
 * Whether the whole text matches: `*` stands for any characters, `?` for one. Never takes longer
 * than pattern × text, however many stars there are.
 */
export function globMatches(pattern: string, text: string): boolean {
  let atPattern = 0;
  let atText = 0;
  let star = -1;
  let resumeText = 0;
  while (atText < text.length) {
    const wanted = pattern[atPattern];
    if (wanted === "*") {
      star = atPattern++;
      resumeText = atText;
    } else if (wanted !== undefined && (wanted === "?" || wanted === text[atText])) {
      atPattern++;
      atText++;
    } else if (star >= 0) {
      // Only the last star can still give way: what the earlier ones took is as short as can be.
      atPattern = star + 1;
      atText = ++resumeText;
    } else {
      return false;
    }
  }
  while (pattern[atPattern] === "*") atPattern++;
  return atPattern === pattern.length;
}
