import { QueryClient } from "@tanstack/react-query";
import {
  createRootRouteWithContext,
  createRoute,
  createRouter,
  lazyRouteComponent,
  Outlet,
  redirect,
} from "@tanstack/react-router";
import { ApiError } from "./api/error";
import { hasSession } from "./api/session-clock";
import { findOrganization, firstOrganization } from "./organizations";
import { adminSearch } from "./searches/admin";
import { alertSearch } from "./searches/alerts";
import { auditSearch } from "./searches/audit";
import { energySearch } from "./searches/energy";
import { fleetSearch } from "./searches/fleet";
import { historySearch } from "./searches/history";
import { loginSearch } from "./searches/login";
import { newPlantSearch } from "./searches/new-plant";
import { newTemplateSearch } from "./searches/new-template";
import { peopleSearch } from "./searches/people";
import { rulesSearch } from "./searches/rules";
import { siteSearch, sitesSearch } from "./searches/trading";
import { type SessionUser, sessionQuery } from "./session";
import { ErrorPage, LoadingPage, NotFoundPage } from "./ui/pages";

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      // A refusal stays one; only a service that cannot be reached or is overloaded is asked again.
      retry: (count, error) => count < 2 && !(error instanceof ApiError && error.status >= 400 && error.status < 500),
      staleTime: 10_000,
    },
  },
});

const root = createRootRouteWithContext<{ queryClient: QueryClient }>()({
  component: Outlet,
  notFoundComponent: NotFoundPage,
});

const login = createRoute({
  getParentRoute: () => root,
  path: "/login",
  validateSearch: loginSearch,
  component: lazyRouteComponent(() => import("./screens/login"), "LoginScreen"),
});

const forgot = createRoute({
  getParentRoute: () => root,
  path: "/forgot",
  component: lazyRouteComponent(() => import("./screens/forgot"), "ForgotScreen"),
});

/** Everything below needs a session. */
const inside = createRoute({
  getParentRoute: () => root,
  id: "inside",
  beforeLoad: async ({ context, location }): Promise<{ user: SessionUser }> => {
    const toLogin = redirect({ to: "/login", search: location.pathname === "/" ? {} : { next: location.href } });
    if (!hasSession()) throw toLogin;
    try {
      return { user: await context.queryClient.ensureQueryData(sessionQuery) };
    } catch (error) {
      throw error instanceof ApiError && error.status === 401 ? toLogin : error;
    }
  },
});

const start = createRoute({
  getParentRoute: () => inside,
  path: "/",
  beforeLoad: async ({ context }) => {
    const organization = await firstOrganization(context.queryClient, context.user);
    if (organization) throw redirect({ to: "/o/$slug/fleet", params: { slug: organization.slug } });
  },
  component: lazyRouteComponent(() => import("./screens/start"), "StartScreen"),
});

const admin = createRoute({
  getParentRoute: () => inside,
  path: "/admin",
  component: lazyRouteComponent(() => import("./screens/admin"), "AdminFrame"),
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
  component: lazyRouteComponent(() => import("./screens/admin-organizations"), "OrganizationsScreen"),
});

const adminUsers = createRoute({
  getParentRoute: () => admin,
  path: "/users",
  validateSearch: adminSearch,
  component: lazyRouteComponent(() => import("./screens/admin-users"), "UsersScreen"),
});

const adminHealth = createRoute({
  getParentRoute: () => admin,
  path: "/health",
  component: lazyRouteComponent(() => import("./screens/admin-health"), "HealthScreen"),
});

const organization = createRoute({
  getParentRoute: () => inside,
  path: "/o/$slug",
  beforeLoad: async ({ context, params }) => ({
    organization: await findOrganization(context.queryClient, context.user, params.slug),
  }),
  component: lazyRouteComponent(() => import("./screens/shell"), "Shell"),
});

const organizationStart = createRoute({
  getParentRoute: () => organization,
  path: "/",
  beforeLoad: ({ params }) => {
    throw redirect({ to: "/o/$slug/fleet", params });
  },
});

const fleet = createRoute({
  getParentRoute: () => organization,
  path: "/fleet",
  validateSearch: fleetSearch,
  component: lazyRouteComponent(() => import("./screens/fleet"), "FleetScreen"),
});

const alerts = createRoute({
  getParentRoute: () => organization,
  path: "/alerts",
  validateSearch: alertSearch,
  component: lazyRouteComponent(() => import("./screens/alerts"), "AlertsScreen"),
});

const alert = createRoute({
  getParentRoute: () => organization,
  path: "/alerts/$alertId",
  component: lazyRouteComponent(() => import("./screens/alert"), "AlertScreen"),
});

const rules = createRoute({
  getParentRoute: () => organization,
  path: "/rules",
  validateSearch: rulesSearch,
  component: lazyRouteComponent(() => import("./screens/rules"), "RulesScreen"),
});

const newRule = createRoute({
  getParentRoute: () => organization,
  path: "/rules/new",
  component: lazyRouteComponent(() => import("./screens/rule"), "NewRuleScreen"),
});

const rule = createRoute({
  getParentRoute: () => organization,
  path: "/rules/$ruleId",
  component: lazyRouteComponent(() => import("./screens/rule"), "RuleScreen"),
});

const templates = createRoute({
  getParentRoute: () => organization,
  path: "/templates",
  component: lazyRouteComponent(() => import("./screens/templates"), "TemplatesScreen"),
});

const newTemplate = createRoute({
  getParentRoute: () => organization,
  path: "/templates/new",
  validateSearch: newTemplateSearch,
  component: lazyRouteComponent(() => import("./screens/template-edit"), "NewTemplateScreen"),
});

const template = createRoute({
  getParentRoute: () => organization,
  path: "/templates/$templateId",
  component: lazyRouteComponent(() => import("./screens/template"), "TemplateScreen"),
});

const editTemplate = createRoute({
  getParentRoute: () => organization,
  path: "/templates/$templateId/edit",
  component: lazyRouteComponent(() => import("./screens/template-edit"), "EditTemplateScreen"),
});

const groups = createRoute({
  getParentRoute: () => organization,
  path: "/groups",
  component: lazyRouteComponent(() => import("./screens/groups"), "GroupsScreen"),
});

const group = createRoute({
  getParentRoute: () => organization,
  path: "/groups/$groupId",
  component: lazyRouteComponent(() => import("./screens/group"), "GroupScreen"),
});

const trading = createRoute({
  getParentRoute: () => organization,
  path: "/trading",
  validateSearch: sitesSearch,
  component: lazyRouteComponent(() => import("./screens/trading"), "TradingScreen"),
});

const partners = createRoute({
  getParentRoute: () => organization,
  path: "/partners",
  component: lazyRouteComponent(() => import("./screens/partners"), "PartnersScreen"),
});

const people = createRoute({
  getParentRoute: () => organization,
  path: "/people",
  validateSearch: peopleSearch,
  component: lazyRouteComponent(() => import("./screens/people"), "PeopleScreen"),
});

const audit = createRoute({
  getParentRoute: () => organization,
  path: "/audit",
  validateSearch: auditSearch,
  component: lazyRouteComponent(() => import("./screens/audit"), "AuditScreen"),
});

const me = createRoute({
  getParentRoute: () => organization,
  path: "/me",
  component: lazyRouteComponent(() => import("./screens/me"), "MeScreen"),
});

const newPlant = createRoute({
  getParentRoute: () => organization,
  path: "/plants/new",
  validateSearch: newPlantSearch,
  component: lazyRouteComponent(() => import("./screens/plant-new"), "NewPlantScreen"),
});

const importPlants = createRoute({
  getParentRoute: () => organization,
  path: "/plants/import",
  component: lazyRouteComponent(() => import("./screens/plant-import"), "ImportScreen"),
});

const plant = createRoute({
  getParentRoute: () => organization,
  path: "/plants/$plantId",
  component: lazyRouteComponent(() => import("./screens/plant"), "PlantFrame"),
});

const plantStart = createRoute({
  getParentRoute: () => plant,
  path: "/",
  beforeLoad: ({ params }) => {
    throw redirect({ to: "/o/$slug/plants/$plantId/live", params });
  },
});

const plantLive = createRoute({
  getParentRoute: () => plant,
  path: "/live",
  component: lazyRouteComponent(() => import("./screens/plant-live"), "PlantLiveScreen"),
});

const plantHistory = createRoute({
  getParentRoute: () => plant,
  path: "/history",
  validateSearch: historySearch,
  component: lazyRouteComponent(() => import("./screens/plant-history"), "PlantHistoryScreen"),
});

const plantEnergy = createRoute({
  getParentRoute: () => plant,
  path: "/energy",
  validateSearch: energySearch,
  component: lazyRouteComponent(() => import("./screens/plant-energy"), "PlantEnergyScreen"),
});

const plantDevices = createRoute({
  getParentRoute: () => plant,
  path: "/devices",
  component: lazyRouteComponent(() => import("./screens/plant-devices"), "PlantDevicesScreen"),
});

const plantTrading = createRoute({
  getParentRoute: () => plant,
  path: "/trading",
  validateSearch: siteSearch,
  component: lazyRouteComponent(() => import("./screens/plant-trading"), "PlantTradingScreen"),
});

const plantCredentials = createRoute({
  getParentRoute: () => plant,
  path: "/credentials",
  component: lazyRouteComponent(() => import("./screens/plant-credentials"), "PlantCredentialsScreen"),
});

const plantMessages = createRoute({
  getParentRoute: () => plant,
  path: "/messages",
  component: lazyRouteComponent(() => import("./screens/plant-messages"), "PlantMessagesScreen"),
});

const plantAlerts = createRoute({
  getParentRoute: () => plant,
  path: "/alerts",
  validateSearch: alertSearch,
  component: lazyRouteComponent(() => import("./screens/plant-alerts"), "PlantAlertsScreen"),
});

const plantAudit = createRoute({
  getParentRoute: () => plant,
  path: "/audit",
  validateSearch: auditSearch,
  component: lazyRouteComponent(() => import("./screens/plant-audit"), "PlantAuditScreen"),
});

export const router = createRouter({
  routeTree: root.addChildren([
    login,
    forgot,
    inside.addChildren([
      start,
      admin.addChildren([adminStart, adminOrganizations, adminUsers, adminHealth]),
      organization.addChildren([
        organizationStart,
        fleet,
        alerts,
        alert,
        rules,
        newRule,
        rule,
        templates,
        newTemplate,
        template,
        editTemplate,
        groups,
        group,
        trading,
        partners,
        people,
        audit,
        me,
        newPlant,
        importPlants,
        plant.addChildren([
          plantStart,
          plantLive,
          plantHistory,
          plantEnergy,
          plantDevices,
          plantMessages,
          plantAlerts,
          plantTrading,
          plantCredentials,
          plantAudit,
        ]),
      ]),
    ]),
  ]),
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
