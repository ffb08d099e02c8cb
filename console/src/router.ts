import { createRoute, createRouter, lazyRouteComponent, redirect } from "@tanstack/react-router";
import { firstOrganization } from "./organizations";
import { queryClient } from "./query-client";
import { adminPages } from "./routes/admin";
import { inside, root } from "./routes/frames";
import { organizationPages } from "./routes/organization";
import { LoginScreen } from "./screens/login";
import { loginSearch } from "./searches/login";
import { ErrorPage, LoadingPage, NotFoundPage } from "./ui/pages";

const login = createRoute({
  getParentRoute: () => root,
  path: "/login",
  validateSearch: loginSearch,
  component: LoginScreen,
});

const forgot = createRoute({
  getParentRoute: () => root,
  path: "/forgot",
  component: lazyRouteComponent(() => import("./screens/forgot"), "ForgotScreen"),
});

const start = createRoute({
  getParentRoute: () => inside,
  path: "/",
  beforeLoad: async ({ context }) => {
    const organization = await firstOrganization(context.queryClient, context.user);
    if (organization) throw redirect({ to: "/o/$slug/fleet", params: { slug: organization.slug } });
    // Of a new service, whose first organisation they create.
    if (context.user.isSuperAdmin) throw redirect({ to: "/admin/organizations" });
  },
  component: lazyRouteComponent(() => import("./screens/start"), "StartScreen"),
});

const myAccount = createRoute({
  getParentRoute: () => inside,
  path: "/me",
  beforeLoad: async ({ context }) => {
    const organization = await firstOrganization(context.queryClient, context.user);
    throw organization ? redirect({ to: "/o/$slug/me", params: { slug: organization.slug } }) : redirect({ to: "/" });
  },
});

export const router = createRouter({
  routeTree: root.addChildren([login, forgot, inside.addChildren([start, myAccount, adminPages, organizationPages])]),
  basepath: "/console",
  context: { queryClient },
  defaultPreload: "intent",
  defaultPendingComponent: LoadingPage,
  defaultErrorComponent: ErrorPage,
  defaultNotFoundComponent: NotFoundPage,
  scrollRestoration: true,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
