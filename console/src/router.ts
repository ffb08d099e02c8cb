import { MutationCache, notifyManager, QueryClient } from "@tanstack/react-query";
import { createRoute, createRouter, lazyRouteComponent, redirect } from "@tanstack/react-router";
import { ApiError } from "./api/error";
import { firstOrganization } from "./organizations";
import { adminPages } from "./routes/admin";
import { inside, root } from "./routes/frames";
import { organizationPages } from "./routes/organization";
import { LoginScreen } from "./screens/login";
import { loginSearch } from "./searches/login";
import { ErrorPage, LoadingPage, NotFoundPage } from "./ui/pages";

// Not by a timer, which comes after a second click: the button of a request that is under way is disabled by then.
notifyManager.setScheduler(queueMicrotask);

export const queryClient = new QueryClient({
  mutationCache: new MutationCache({
    // Someone else has deleted it: what lists it is read again.
    onError: (error) => {
      // Not awaited: the error is shown at once.
      if (error instanceof ApiError && error.status === 404) void queryClient.invalidateQueries();
    },
  }),
  defaultOptions: {
    mutations: {
      // A request may have a password or a key: it is forgotten with its form.
      gcTime: 0,
      // Without a network, a change fails. Otherwise it would wait, and be made when its user has given it up.
      networkMode: "always",
    },
    queries: {
      // A refusal stays one; only a service that cannot be reached or is overloaded is asked again.
      retry: (count, error) => count < 2 && !(error instanceof ApiError && error.status >= 400 && error.status < 500),
      staleTime: 10_000,
    },
  },
});

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
