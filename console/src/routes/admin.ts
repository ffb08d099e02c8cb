import { createRoute, lazyRouteComponent, redirect } from "@tanstack/react-router";
import { adminSearch } from "../searches/admin";
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

/** The pages about the whole service. */
export const adminPages = admin.addChildren([adminStart, adminOrganizations, adminUsers, adminHealth]);
