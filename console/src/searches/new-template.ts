/** What the URL says about a new template. */
export interface NewTemplateSearch {
  /** Id of the template whose signals and actions it begins with. */
  from?: string | undefined;
}

export function newTemplateSearch({ from }: Record<string, unknown>): NewTemplateSearch {
  return { from: typeof from === "string" ? from : undefined };
}
