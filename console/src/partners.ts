import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { apiOf, dataOf, inOrganization } from "./api/client";
import type { components } from "./api/schema";

export type ApiKey = components["schemas"]["ApiKey"];
export type Scope = components["schemas"]["Scope"];

/** What a key may do, in the order in which the form shows it. `vcp:…` is for trading partners at the broker. */
export const SCOPES: readonly Scope[] = [
  "plants:read",
  "plants:write",
  "telemetry:read",
  "telemetry:write",
  "commands:read",
  "commands:execute",
  "config:read",
  "config:write",
  "trading:read",
  "trading:write",
  "trading:connect",
  "vcp:connect",
  "vcp:read",
  "vcp:write:setpoint",
  "vcp:write:mode",
  "vcp:write:schedule",
  "vcp:write:device-command",
  "vcp:write:config",
];

const PAGE = 50;

/** A page of the keys of an organisation, also revoked ones, newest first. */
export function keysQuery(organizationId: string, page = 1) {
  return queryOptions({
    queryKey: [organizationId, "keys", page],
    queryFn: ({ signal }) =>
      dataOf(
        apiOf(organizationId).GET("/api/v1/partner/api-keys", {
          params: { header: inOrganization(organizationId), query: { page, limit: PAGE } },
          signal,
        }),
      ),
    placeholderData: keepPreviousData,
    refetchInterval: 60_000,
  });
}

/** Return the networks of a text: one on each line, or separated by commas. */
export function networksOf(text: string): string[] {
  return text.split(/[\s,]+/).filter((one) => one !== "");
}

/** Return whether a key may log in at the broker. */
export function isForBroker({ scopes }: ApiKey): boolean {
  return scopes.some((scope) => /^(vcp|trading):connect$|^vcp:write:/.test(scope));
}
