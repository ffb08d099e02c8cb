import { createRoute, lazyRouteComponent, redirect } from "@tanstack/react-router";
import { alertSearch } from "../searches/alerts";
import { auditSearch } from "../searches/audit";
import { fleetSearch } from "../searches/fleet";
import { listSearch } from "../searches/list";
import { newPlantSearch } from "../searches/new-plant";
import { newTemplateSearch } from "../searches/new-template";
import { pageSearch } from "../searches/page";
import { sitesSearch } from "../searches/trading";
import { organization } from "./frames";
import { plantPages } from "./plant";

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
  component: lazyRouteComponent(() => import("../screens/fleet"), "FleetScreen"),
});

const alerts = createRoute({
  getParentRoute: () => organization,
  path: "/alerts",
  validateSearch: alertSearch,
  component: lazyRouteComponent(() => import("../screens/alerts"), "AlertsScreen"),
});

const alert = createRoute({
  getParentRoute: () => organization,
  path: "/alerts/$alertId",
  component: lazyRouteComponent(() => import("../screens/alert"), "AlertScreen"),
});

const rules = createRoute({
  getParentRoute: () => organization,
  path: "/rules",
  validateSearch: pageSearch,
  component: lazyRouteComponent(() => import("../screens/rules"), "RulesScreen"),
});

const newRule = createRoute({
  getParentRoute: () => organization,
  path: "/rules/new",
  component: lazyRouteComponent(() => import("../screens/rule"), "NewRuleScreen"),
});

const rule = createRoute({
  getParentRoute: () => organization,
  path: "/rules/$ruleId",
  component: lazyRouteComponent(() => import("../screens/rule"), "RuleScreen"),
});

const templates = createRoute({
  getParentRoute: () => organization,
  path: "/templates",
  component: lazyRouteComponent(() => import("../screens/templates"), "TemplatesScreen"),
});

const newTemplate = createRoute({
  getParentRoute: () => organization,
  path: "/templates/new",
  validateSearch: newTemplateSearch,
  component: lazyRouteComponent(() => import("../screens/template-edit"), "NewTemplateScreen"),
});

const template = createRoute({
  getParentRoute: () => organization,
  path: "/templates/$templateId",
  component: lazyRouteComponent(() => import("../screens/template"), "TemplateScreen"),
});

const editTemplate = createRoute({
  getParentRoute: () => organization,
  path: "/templates/$templateId/edit",
  component: lazyRouteComponent(() => import("../screens/template-edit"), "EditTemplateScreen"),
});

const groups = createRoute({
  getParentRoute: () => organization,
  path: "/groups",
  validateSearch: pageSearch,
  component: lazyRouteComponent(() => import("../screens/groups"), "GroupsScreen"),
});

const group = createRoute({
  getParentRoute: () => organization,
  path: "/groups/$groupId",
  component: lazyRouteComponent(() => import("../screens/group"), "GroupScreen"),
});

const trading = createRoute({
  getParentRoute: () => organization,
  path: "/trading",
  validateSearch: sitesSearch,
  component: lazyRouteComponent(() => import("../screens/trading"), "TradingScreen"),
});

const partners = createRoute({
  getParentRoute: () => organization,
  path: "/partners",
  validateSearch: pageSearch,
  component: lazyRouteComponent(() => import("../screens/partners"), "PartnersScreen"),
});

const people = createRoute({
  getParentRoute: () => organization,
  path: "/people",
  validateSearch: listSearch,
  component: lazyRouteComponent(() => import("../screens/people"), "PeopleScreen"),
});

const audit = createRoute({
  getParentRoute: () => organization,
  path: "/audit",
  validateSearch: auditSearch,
  component: lazyRouteComponent(() => import("../screens/audit"), "AuditScreen"),
});

const me = createRoute({
  getParentRoute: () => organization,
  path: "/me",
  component: lazyRouteComponent(() => import("../screens/me"), "MeScreen"),
});

const newPlant = createRoute({
  getParentRoute: () => organization,
  path: "/plants/new",
  validateSearch: newPlantSearch,
  component: lazyRouteComponent(() => import("../screens/plant-new"), "NewPlantScreen"),
});

const importPlants = createRoute({
  getParentRoute: () => organization,
  path: "/plants/import",
  component: lazyRouteComponent(() => import("../screens/plant-import"), "ImportScreen"),
});

/** The pages of an organisation. */
export const organizationPages = organization.addChildren([
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
  plantPages,
]);
