import type { components } from "./schema";

export type ErrorCode = components["schemas"]["ErrorCode"];

/** A request that the service refused, or that did not reach it. */
export class ApiError extends Error {
  /**
   * @param status HTTP status; 0 if there is no answer.
   * @param code Code of the service; UNREACHABLE without an answer of it.
   * @param details One sentence for each error; often empty.
   * @param requestId Identifies the request in the service's log; null without an answer.
   */
  constructor(
    readonly status: number,
    readonly code: ErrorCode | "UNREACHABLE",
    message: string,
    readonly details: readonly string[],
    readonly requestId: string | null,
  ) {
    super(message);
    this.name = "ApiError";
  }
}

/** Return whether a change that failed may have been made nevertheless. */
export function mayBeMade(error: unknown): boolean {
  return error instanceof ApiError && (error.status === 0 || error.status >= 500);
}

/** Return the error that a response describes. A proxy in front of the service may answer with other JSON, or with none. */
export async function errorOf(response: Response): Promise<ApiError> {
  const requestId = response.headers.get("x-request-id");
  const known: components["schemas"]["ErrorEnvelope"] | null = await response.json().catch(() => null);
  if (Array.isArray(known?.details)) {
    return new ApiError(response.status, known.code, known.message, known.details, requestId);
  }
  const message = `${response.status} ${response.statusText}`.trim();
  return new ApiError(response.status, "UNREACHABLE", message, [], requestId);
}
