import { createRoute, lazyRouteComponent, redirect } from "@tanstack/react-router";
import { firstOrganization } from "../organizations";
import { adminSearch } from "../searches/admin";
import { pageOf } from "../searches/values";
import { inside } from "./frames";

const admin = createRoute({
  getParentRoute: () => inside,
  path: "/admin",
  component: lazyRouteComponent(() => import("../screens/admin"), "AdminFrame"),
});

const adminStart = createRoute({
  getParentRoute: () => admin,
  path: "/",
  beforeLoad: () => {
    throw redirect({ to: "/admin/organizations" });
  },
});

const adminOrganizations = createRoute({
  getParentRoute: () => admin,
  path: "/organizations",
  validateSearch: adminSearch,
  component: lazyRouteComponent(() => import("../screens/admin-organizations"), "OrganizationsScreen"),
});

const adminUsers = createRoute({
  getParentRoute: () => admin,
  path: "/users",
  validateSearch: adminSearch,
  component: lazyRouteComponent(() => import("../screens/admin-users"), "UsersScreen"),
});

const adminHealth = createRoute({
  getParentRoute: () => admin,
  path: "/health",
  component: lazyRouteComponent(() => import("../screens/admin-health"), "HealthScreen"),
});

const adminTemplates = createRoute({
  getParentRoute: () => admin,
  path: "/templates",
  // Who uses a template is counted within an organisation, so its pages are there.
  beforeLoad: async ({ context }) => {
    const found = await firstOrganization(context.queryClient, context.user);
    throw found
      ? redirect({ to: "/o/$slug/templates", params: { slug: found.slug } })
      : redirect({ to: "/admin/organizations" });
  },
});

const adminSandbox = createRoute({
  getParentRoute: () => admin,
  path: "/sandbox",
  component: lazyRouteComponent(() => import("../screens/admin-sandbox"), "SandboxScreen"),
});

const adminNotifications = createRoute({
  getParentRoute: () => admin,
  path: "/notifications",
  validateSearch: ({ page }: Record<string, unknown>): { page?: number | undefined } => ({ page: pageOf(page) }),
  component: lazyRouteComponent(() => import("../screens/admin-notifications"), "NotificationsScreen"),
});

const adminCache = createRoute({
  getParentRoute: () => admin,
  path: "/cache",
  component: lazyRouteComponent(() => import("../screens/admin-cache"), "CacheScreen"),
});

const adminKeys = createRoute({
  getParentRoute: () => admin,
  path: "/keys",
  component: lazyRouteComponent(() => import("../screens/admin-keys"), "KeysScreen"),
});

/** The pages about the whole service. */
export const adminPages = admin.addChildren([
  adminStart,
  adminOrganizations,
  adminUsers,
  adminTemplates,
  adminSandbox,
  adminNotifications,
  adminCache,
  adminKeys,
  adminHealth,
]);
