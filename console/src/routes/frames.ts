import type { QueryClient } from "@tanstack/react-query";
import { createRootRouteWithContext, createRoute, lazyRouteComponent, Outlet, redirect } from "@tanstack/react-router";
import { ApiError } from "../api/error";
import { hasSession } from "../api/session-clock";
import { findOrganization } from "../organizations";
import { type SessionUser, sessionQuery } from "../session";
import { NotFoundPage } from "../ui/pages";

export const root = createRootRouteWithContext<{ queryClient: QueryClient }>()({
  component: Outlet,
  notFoundComponent: NotFoundPage,
});

/** Everything below needs a session. */
export const inside = createRoute({
  getParentRoute: () => root,
  id: "inside",
  beforeLoad: async ({ context, location }): Promise<{ user: SessionUser }> => {
    const toLogin = redirect({ to: "/login", search: location.pathname === "/" ? {} : { next: location.href } });
    if (!hasSession()) throw toLogin;
    try {
      return { user: await context.queryClient.ensureQueryData({ ...sessionQuery, revalidateIfStale: true }) };
    } catch (error) {
      throw error instanceof ApiError && error.status === 401 ? toLogin : error;
    }
  },
});

export const organization = createRoute({
  getParentRoute: () => inside,
  path: "/o/$slug",
  beforeLoad: async ({ context, params }) => ({
    organization: await findOrganization(context.queryClient, context.user, params.slug),
  }),
  component: lazyRouteComponent(() => import("../screens/shell"), "Shell"),
});
