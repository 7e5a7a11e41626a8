"""What the embedded notes say about a condition besides its name: short forms, treatments, findings, company it keeps.

Two hand-written tables. `COMMON` lists frequent hospital codes, most frequent first. `GROUPS` covers the rest of the
tabular list by ranges of categories: a rare code draws a few treatments and findings of its group by a hash of its
own name, so they are the same in every note. Columns are separated by "|", entries by ";"; a treatment that starts
with "*" is a procedure, any other a drug. The last column names the clusters in which the condition keeps company. A
line that starts with blanks goes on with the row above.
"""

# code | short forms | treatments | findings | clusters
COMMON = """
I10 | HTN; high blood pressure; hypertension | lisinopril; amlodipine; hydrochlorothiazide | systolic pressures in the
    170s; elevated blood pressure readings | heart diabetes stroke
E78.5 | HLD; hyperlipidemia; high cholesterol | atorvastatin; simvastatin; rosuvastatin | elevated LDL cholesterol |
    heart diabetes stroke
Z87.891 | former smoker; quit smoking years ago; ex-smoker | | | lung heart cancer
K21.9 | GERD; acid reflux; reflux disease | omeprazole; pantoprazole; famotidine | heartburn after meals; retrosternal
    burning | gut lung
N17.9 | AKI; acute renal failure; ARF; prerenal azotemia | *renal ultrasound; intravenous fluids | rising creatinine;
    oliguria | kidney sepsis heart
F32.A | depression; MDD; depressed mood | sertraline; citalopram; bupropion | low mood and anhedonia | mind bone
I25.10 | CAD; coronary artery disease; ischemic heart disease | aspirin; nitroglycerin; *cardiac catheterization |
    exertional angina in the past; inducible ischemia on stress imaging | heart diabetes
E11.9 | DM2; type II diabetes; T2DM; NIDDM | metformin; glipizide; sliding scale insulin | hyperglycemia on
    fingersticks; elevated hemoglobin A1c | diabetes heart
F41.9 | anxiety; anxious mood | lorazepam; buspirone; hydroxyzine | nervousness and restlessness | mind
Z79.01 | on anticoagulation; anticoagulated; on blood thinners | | | heart clot
I48.91 | afib; AF; a fib with RVR | diltiazem; apixaban; digoxin | irregularly irregular rhythm; rapid ventricular
    rate | heart stroke clot
E03.9 | hypothyroid; low thyroid | levothyroxine | elevated TSH | mind bone
J44.9 | COPD; emphysematous lung disease; chronic obstructive lung disease | tiotropium; albuterol;
    fluticasone-salmeterol | barrel chest; prolonged expiratory phase | lung heart
Z79.4 | insulin dependent; on home insulin | | | diabetes
D64.9 | anemia; low blood counts | *transfusion of packed cells; folic acid | low hemoglobin; conjunctival pallor |
    blood kidney cancer
F17.210 | current smoker; active tobacco use; smokes cigarettes | nicotine patch; varenicline | one pack per day for
    years | lung mind liver
N39.0 | UTI; urinary infection | ceftriaxone; nitrofurantoin; ciprofloxacin | dysuria and frequency; pyuria on
    urinalysis | sepsis elder
G47.33 | OSA; sleep apnea | *continuous positive airway pressure at night | loud snoring; daytime somnolence | lung
    heart
Z95.5 | prior stents; coronary stent in place; s/p DES | | | heart
E87.1 | low sodium; hyposmolality; hypoNa | fluid restriction; salt tablets | sodium of 124; serum osmolality low |
    kidney liver heart
D62 | blood loss anemia; postoperative drop in hematocrit | *transfusion of two units of red cells; ferrous sulfate |
    falling hematocrit | blood gut bone
E66.9 | obese; obesity | *nutrition counseling for weight loss | large body habitus | diabetes bone lung
I50.9 | CHF; heart failure; cardiac failure | furosemide; metoprolol succinate; bumetanide | bilateral leg swelling;
    elevated BNP | heart kidney
N18.9 | CKD; chronic renal insufficiency; CRI | sevelamer; sodium bicarbonate | baseline creatinine above two | kidney
    diabetes
Z66 | DNR; do not resuscitate; code status DNR/DNI | | | elder cancer
J18.9 | pneumonia; PNA; CAP; lung infection | levofloxacin; azithromycin; ceftriaxone | productive cough with fever;
    lobar consolidation on chest film | lung sepsis elder
A41.9 | sepsis; septicemia; septic picture | vancomycin; piperacillin-tazobactam; cefepime | fever with rigors;
    lactate of 4 | sepsis
Z79.02 | on dual antiplatelet therapy; long-term Plavix; on antiplatelets | | | heart stroke
I11.0 | hypertensive cardiomyopathy with CHF; hypertensive heart failure | carvedilol; furosemide; losartan |
    concentric hypertrophy on echocardiogram | heart
E87.6 | low potassium; hypoK | potassium chloride | potassium of 2.9; U waves on ECG | kidney liver gut
J96.01 | hypoxic respiratory failure; AHRF; acute hypoxemia | *endotracheal intubation; *high flow nasal oxygen |
    saturating in the low 80s; increased work of breathing | lung sepsis heart
I12.9 | hypertensive nephropathy; hypertensive CKD | losartan; chlorthalidone | small echogenic kidneys | kidney
E11.22 | diabetic nephropathy; diabetic CKD; DM2 with kidney disease | empagliflozin; insulin glargine |
    microalbuminuria | diabetes kidney
J45.909 | asthma; reactive airways | albuterol; montelukast; fluticasone | expiratory wheezing | lung
K59.00 | constipated; no bowel movement for days | senna; polyethylene glycol; bisacodyl | hard stool in the vault |
    gut elder
I25.2 | old MI; prior myocardial infarction; h/o MI | aspirin; metoprolol tartrate | Q waves on ECG | heart
D69.6 | low platelets; TCP | *platelet transfusion | platelets of 60 | blood liver sepsis
E87.20 | acidosis; metabolic acidosis | sodium bicarbonate | wide anion gap; low bicarbonate | kidney sepsis
N40.0 | BPH; enlarged prostate; prostatic enlargement | tamsulosin; finasteride | urinary hesitancy and nocturia |
    elder
Z86.73 | prior CVA; old stroke; h/o TIA | | | stroke elder
M10.9 | gout; gouty flare; podagra | allopurinol; colchicine | swollen great toe; elevated uric acid | kidney bone
I50.33 | acute on chronic dCHF; HFpEF exacerbation; diastolic CHF exacerbation | furosemide drip; metolazone |
    orthopnea with preserved ejection fraction | heart kidney
I50.23 | acute on chronic sCHF; HFrEF exacerbation; systolic CHF exacerbation | milrinone; bumetanide;
    sacubitril-valsartan | cardiogenic edema with reduced ejection fraction | heart kidney
Z86.718 | prior DVT; h/o DVT; remote leg clot | | | clot
N18.6 | ESRD; end stage kidney disease; dialysis dependent | *hemodialysis; sevelamer; epoetin alfa | anuria; thrill
    over fistula | kidney diabetes
Z99.2 | on HD; HD three times a week; receives dialysis | | | kidney
R65.20 | severe sepsis; sepsis with organ dysfunction | *central venous catheter placement; intravenous fluids |
    hypotension responsive to fluids | sepsis
R65.21 | septic shock; pressor dependent sepsis | norepinephrine; vasopressin; *arterial line placement | mean
    pressures below 60 despite fluids | sepsis
I35.0 | AS; aortic stenosis; tight aortic valve | *transcatheter aortic valve replacement | crescendo murmur to the
    carotids | heart elder
E87.5 | high potassium; hyperK | calcium gluconate; sodium polystyrene | peaked T waves; potassium of 6.4 | kidney
I21.4 | NSTEMI; non-ST elevation MI; NSTE-ACS | heparin drip; clopidogrel; *percutaneous coronary intervention |
    rising troponin; ST depressions | heart diabetes
J69.0 | aspiration; aspiration pneumonitis; aspiration event | ampicillin-sulbactam; *speech and swallow evaluation |
    witnessed vomiting then hypoxia; right lower lobe opacity | stroke elder lung
F10.20 | EtOH dependence; alcoholism; alcohol use disorder | thiamine; folic acid; naltrexone | drinks vodka daily |
    liver mind
I95.9 | low blood pressure; hypotensive | midodrine; intravenous fluids | systolic pressures in the 80s | sepsis heart
    elder
J44.1 | COPD exacerbation; COPD flare; AECOPD | prednisone taper; azithromycin; ipratropium | worse dyspnea and
    purulent sputum; diffuse wheeze | lung
G40.909 | seizure disorder; epilepsy | levetiracetam; lacosamide; *electroencephalogram | witnessed convulsion;
    postictal confusion | stroke mind
K92.2 | GIB; GI bleed; gastrointestinal bleeding | *upper endoscopy; pantoprazole drip; octreotide | melena; maroon
    stools | gut liver blood
I27.20 | PH; pulmonary hypertension; elevated PA pressures | sildenafil; *right heart catheterization | loud P2;
    dilated right ventricle | heart lung
D63.1 | anemia of CKD; renal anemia | epoetin alfa; iron sucrose | normocytic indices | kidney
F03.90 | dementia; cognitive decline; memory loss | donepezil; memantine | oriented only to self | elder stroke
Z95.1 | s/p CABG; prior bypass surgery | | | heart
E43 | severe protein calorie malnutrition; severely malnourished | *feeding tube placement; thiamine | temporal
    wasting; albumin of 1.9 | cancer gut elder
D50.9 | IDA; iron deficiency; low iron anemia | ferrous sulfate; iron sucrose | low ferritin; microcytosis | blood gut
G89.29 | chronic pain; long-standing pain syndrome | oxycodone; gabapentin; *pain service consultation | pain limiting
    function | bone mind
I48.0 | PAF; paroxysmal afib; pAF | amiodarone; *cardioversion; apixaban | palpitations that come and go | heart stroke
K70.30 | EtOH cirrhosis; alcoholic cirrhosis; Laennec cirrhosis | lactulose; spironolactone; nadolol | spider
    angiomata; nodular liver | liver
Z86.711 | prior PE; h/o pulmonary embolus | | | clot
I26.99 | PE; pulmonary embolus; lung clot | heparin drip; rivaroxaban; *inferior vena cava filter placement |
    pleuritic pain; filling defect on CT angiogram | clot cancer
R18.8 | ascites; tense belly fluid | *paracentesis; spironolactone | shifting dullness; fluid wave | liver cancer
B18.2 | HCV; hep C; chronic hepatitis C infection | sofosbuvir-velpatasvir | detectable viral RNA | liver mind
K76.6 | portal HTN; portal hypertension | nadolol; *transjugular shunt placement | splenomegaly; recanalized umbilical
    vein | liver
I63.9 | CVA; stroke; ischemic stroke; cerebral infarct | alteplase; *thrombectomy; clopidogrel | facial droop;
    hemiparesis; restricted diffusion on MRI | stroke
F05 | delirium; acute confusional state; sundowning | haloperidol; quetiapine; melatonin | waxing and waning mental
    status | elder sepsis
G93.41 | metabolic encephalopathy; toxic metabolic encephalopathy; TME | *head imaging for altered mental status |
    asterixis; somnolent but arousable | sepsis liver elder
C78.7 | liver mets; hepatic metastases; metastatic disease to liver | *liver biopsy; fluorouracil | numerous hypodense
    hepatic lesions | cancer
C79.51 | bone mets; osseous metastases | zoledronic acid; *palliative radiation | lytic lesions of the spine | cancer
C34.90 | lung ca; NSCLC; bronchogenic carcinoma | pembrolizumab; carboplatin; *bronchoscopy with biopsy | spiculated
    lung mass; hemoptysis | cancer lung
C50.919 | breast ca; breast carcinoma | letrozole; trastuzumab; *mastectomy | palpable breast lump | cancer
C61 | prostate ca; prostatic carcinoma | leuprolide; abiraterone | rising PSA | cancer elder
C18.9 | colon ca; colonic carcinoma | capecitabine; oxaliplatin; *hemicolectomy | apple core lesion | cancer gut
C25.9 | pancreatic ca; pancreatic carcinoma | gemcitabine; *biliary stent placement | painless jaundice; pancreatic
    mass | cancer gut
D70.1 | chemo induced neutropenia; neutropenia from chemotherapy | filgrastim; cefepime | absolute neutrophil count of
    200 | cancer blood
C90.00 | MM; myeloma; plasma cell myeloma | bortezomib; lenalidomide; dexamethasone | monoclonal spike; rouleaux |
    cancer blood bone
C92.00 | AML; acute myelogenous leukemia | cytarabine; daunorubicin; *bone marrow biopsy | circulating blasts | cancer
    blood
Z51.11 | admitted for chemo; scheduled chemotherapy; cycle of chemotherapy | | | cancer
Z85.3 | h/o breast ca; breast cancer survivor | | | cancer
G30.9 | AD; Alzheimer dementia | donepezil; memantine; rivastigmine | progressive forgetfulness | elder
G20.A1 | PD; Parkinson's; parkinsonism | carbidopa-levodopa; pramipexole | resting tremor; shuffling gait | elder
I61.9 | ICH; hemorrhagic stroke; intraparenchymal hemorrhage | nicardipine; *external ventricular drain; mannitol |
    thunderclap headache; hyperdense bleed on head CT | stroke
I62.00 | SDH; subdural hematoma; subdural bleed | *burr hole evacuation; levetiracetam | crescentic collection on head
    CT | stroke elder
R13.10 | trouble swallowing; dysphagia; swallowing difficulty | *modified barium swallow; thickened liquids | coughing
    with thin liquids | stroke elder
R55 | syncope; passed out; fainting spell | *telemetry monitoring; *tilt table testing | brief loss of consciousness |
    heart elder
S72.001A | hip fx; femoral neck fracture; right hip fracture | *hemiarthroplasty; enoxaparin | shortened externally
    rotated leg | bone elder
W19.XXXA | fall; mechanical fall; found down after falling | | unable to get up from the floor | bone elder
M81.0 | osteoporosis; low bone density | alendronate; calcium carbonate; cholecalciferol | low T score | bone elder
M19.90 | OA; osteoarthritis; degenerative joint disease; DJD | *total knee replacement; meloxicam | crepitus and joint
    space narrowing | bone
M06.9 | RA; rheumatoid | methotrexate; adalimumab; hydroxychloroquine | symmetric synovitis; morning stiffness | bone
M32.9 | SLE; lupus | hydroxychloroquine; mycophenolate | malar rash; positive double stranded DNA | bone kidney
M48.061 | lumbar stenosis; spinal stenosis | *lumbar laminectomy; cyclobenzaprine | neurogenic claudication | bone
L03.116 | left leg cellulitis; LLE cellulitis | cefazolin; cephalexin | warm erythema of the left shin | skin diabetes
L03.115 | right leg cellulitis; RLE cellulitis | clindamycin; cephalexin | spreading redness of the right calf | skin
    diabetes
L89.154 | stage IV sacral decub; sacral pressure ulcer | *wound debridement; collagenase ointment | exposed bone at
    the sacrum | skin elder
E11.621 | diabetic foot ulcer; DFU | *podiatry debridement; insulin lispro | draining plantar wound | diabetes skin
E11.42 | diabetic neuropathy; DM2 with polyneuropathy; diabetic polyneuropathy | gabapentin; duloxetine | stocking
    numbness; absent ankle reflexes | diabetes
E11.65 | uncontrolled DM2; hyperglycemia with DM2; poorly controlled diabetes | insulin glargine; insulin lispro |
    glucose above 400 | diabetes
E10.10 | DKA; diabetic ketoacidosis | insulin drip; potassium phosphate | ketones in urine; Kussmaul breathing; fruity
    breath | diabetes
I70.213 | PVD; peripheral arterial disease; claudication of both legs | cilostazol; *angioplasty of the leg | absent
    pedal pulses; low ankle brachial index | diabetes heart
I82.401 | right leg DVT; DVT; RLE deep vein thrombosis | enoxaparin; warfarin | noncompressible femoral vein; calf
    swelling | clot cancer
I71.40 | AAA; abdominal aneurysm | *endovascular aneurysm repair | pulsatile abdominal mass | heart
I33.0 | endocarditis; infective endocarditis; IE | nafcillin; gentamicin; *transesophageal echocardiogram | vegetation
    on the mitral valve; splinter hemorrhages | sepsis mind
B95.62 | MRSA; MRSA infection | vancomycin; daptomycin | resistant staphylococcus in cultures | sepsis skin
B96.20 | E. coli; E. coli infection | ceftriaxone; meropenem | gram negative rods in cultures | sepsis
B20 | HIV; HIV disease; AIDS | dolutegravir; emtricitabine-tenofovir; sulfamethoxazole-trimethoprim | CD4 count of 80
    | mind sepsis
B37.0 | thrush; oral candidiasis | nystatin swish; fluconazole | white plaques on the tongue | cancer sepsis
A04.72 | C diff; C. difficile colitis; CDI | oral vancomycin; fidaxomicin | watery diarrhea after antibiotics; toxin
    assay positive | gut sepsis
K80.20 | gallstones; cholelithiasis; biliary colic | *laparoscopic cholecystectomy; ursodiol | right upper quadrant
    pain after fatty meals | gut
K81.0 | acute chole; acute cholecystitis | *percutaneous cholecystostomy; metronidazole | positive Murphy sign;
    gallbladder wall thickening | gut
K85.90 | pancreatitis; acute pancreatitis | lactated Ringer infusion; hydromorphone | epigastric pain radiating to
    back; lipase above 1000 | gut liver
K56.609 | SBO; bowel obstruction; intestinal obstruction | *nasogastric decompression; *exploratory laparotomy |
    bilious emesis; air fluid levels | gut cancer
K57.32 | diverticulitis; sigmoid diverticulitis | metronidazole; ciprofloxacin | left lower quadrant tenderness; fat
    stranding | gut
K50.90 | Crohn's; CD; regional enteritis | infliximab; azathioprine; budesonide | terminal ileal thickening | gut
K51.90 | UC; ulcerative colitis | mesalamine; vedolizumab | bloody diarrhea with urgency | gut
K25.4 | gastric ulcer bleed; bleeding stomach ulcer | *endoscopic clipping; sucralfate; pantoprazole | coffee ground
    emesis | gut blood
K76.82 | HE; hepatic encephalopathy; PSE | lactulose; rifaximin | asterixis; confusion with elevated ammonia | liver
K74.60 | cirrhosis; cirrhotic liver | spironolactone; *liver transplant evaluation | palmar erythema; nodular hepatic
    contour | liver
I85.11 | variceal bleed; bleeding esophageal varices | octreotide; *variceal band ligation | hematemesis | liver gut
F10.239 | EtOH withdrawal; alcohol withdrawal; CIWA positive | diazepam; phenobarbital; thiamine | tremulous and
    diaphoretic | liver mind
F11.20 | opioid use disorder; heroin dependence; OUD | methadone; buprenorphine-naloxone | track marks | mind sepsis
F31.9 | bipolar; BPAD; manic depression | lithium; lamotrigine; valproate | pressured speech | mind
F20.9 | schizophrenia; chronic psychosis | olanzapine; risperidone; clozapine | auditory hallucinations | mind
F43.10 | PTSD; post-traumatic stress | prazosin; sertraline | nightmares and hypervigilance | mind
R45.851 | SI; suicidal thoughts; suicidal ideation with plan | *one to one observation | voiced a plan for self harm |
    mind
Z94.0 | s/p renal transplant; kidney transplant recipient; DDRT | tacrolimus; mycophenolate | | kidney
Z94.4 | s/p OLT; liver transplant recipient | tacrolimus; prednisone | | liver
Z68.41 | BMI 42; morbidly obese by BMI | | | diabetes lung
J90 | pleural effusion; pleural fluid | *thoracentesis; *chest tube placement | dullness at the base; blunted
    costophrenic angle | lung heart cancer
J84.10 | pulmonary fibrosis; ILD; fibrotic lung disease | nintedanib; pirfenidone | velcro crackles; honeycombing |
    lung
J93.9 | PTX; collapsed lung; pneumothorax | *pigtail catheter placement | absent breath sounds on one side | lung bone
N20.0 | kidney stone; renal calculus; nephrolithiasis | *ureteroscopy with stent; tamsulosin | colicky flank pain;
    hematuria | kidney
N13.30 | hydro; hydronephrosis; obstructive uropathy | *percutaneous nephrostomy | dilated collecting system | kidney
    cancer
R33.9 | urinary retention; unable to void | *Foley catheter placement; tamsulosin | bladder scan above 800 | elder bone
G43.909 | migraines; migraine headaches | sumatriptan; topiramate | throbbing photophobic headache | mind
G35.D | MS; multiple sclerosis flare | ocrelizumab; methylprednisolone | periventricular plaques; optic neuritis |
    stroke
G62.9 | neuropathy; polyneuropathy | pregabalin; nortriptyline | burning feet | diabetes mind
H40.9 | glaucoma; raised eye pressure | latanoprost; timolol drops | cupped optic discs | elder
H91.90 | HOH; hard of hearing; deafness | *hearing aid fitting | asks for questions to be repeated | elder
E55.9 | vit D deficiency; low vitamin D | ergocalciferol; cholecalciferol | low calcidiol level | bone
E83.42 | low magnesium; hypoMg | magnesium sulfate; magnesium oxide | magnesium of 1.1 | liver kidney
"""

# range of categories | treatments | findings | clusters
GROUPS = """
A00-A09 | *stool studies; rifaximin; intravenous fluids; loperamide; metronidazole | watery stools; crampy belly pain;
    tenesmus; recent travel | gut sepsis
A15-B99 | isoniazid; fluconazole; acyclovir; doxycycline; *infectious disease consultation; micafungin; ganciclovir;
    ivermectin | night sweats; rash and fever; positive serologies; eosinophilia; lymphadenitis; travel exposure |
    sepsis
C00-C26 | cisplatin; *tumor resection; *radiation oncology consultation; irinotecan; cetuximab; *feeding tube
    placement | unintentional weight loss; odynophagia; mass on imaging; early satiety; elevated CEA | cancer gut
C30-C50 | docetaxel; nivolumab; *wide local excision; *sentinel node biopsy; pemetrexed; vemurafenib | changing skin
    lesion; cough with blood; palpable node; new nodule | cancer
C51-C80 | paclitaxel; *cystoscopy; sunitinib; temozolomide; *craniotomy; *pelvic exenteration; bevacizumab | painless
    hematuria; pelvic fullness; new focal deficit; elevated CA-125 | cancer
C81-C96 | rituximab; doxorubicin; imatinib; vincristine; *stem cell transplantation; ibrutinib; allopurinol |
    drenching sweats; bulky adenopathy; cytopenias; blasts on smear | cancer blood
D00-D49 | *excisional biopsy; *surveillance imaging; *tumor board review; octreotide depot; hydroxyurea; tamoxifen |
    incidental mass; slow growing lump; abnormal mammogram; flushing episodes | cancer
D50-D89 | cyanocobalamin; eculizumab; intravenous immune globulin; *hematology consultation; deferasirox;
    *splenectomy; prednisone | schistocytes; easy bruising; jaundice with dark urine; macrocytosis; recurrent
    infections | blood
E00-E35 | methimazole; hydrocortisone; cabergoline; *endocrine consultation; desmopressin; liraglutide; cinacalcet;
    *thyroidectomy | tremor with heat intolerance; hyperpigmentation; polyuria; fingerstick lability; goiter |
    diabetes
E40-E89 | *nutrition consultation; multivitamin infusion; calcitriol; fenofibrate; potassium phosphate; miglustat;
    *parenteral nutrition | muscle wasting; poor oral intake; abnormal electrolytes; paresthesias; xanthomas | gut
    kidney
F01-F99 | aripiprazole; fluoxetine; clonazepam; *psychiatry consultation; trazodone; lurasidone; methylphenidate;
    disulfiram | blunted affect; insomnia; agitation; disorganized thoughts; cravings; panic episodes | mind
G00-G14 | *lumbar puncture; ceftriaxone; acyclovir; riluzole; tetrabenazine; dexamethasone | stiff neck; limb
    weakness; photophobia; choreiform movements | stroke sepsis
G20-G99 | amantadine; pyridostigmine; baclofen; *neurology consultation; carbamazepine; plasmapheresis; modafinil;
    zonisamide | spasticity; double vision; ataxic gait; numb hands; myoclonic jerks; cataplexy | stroke mind
H00-H59 | prednisolone drops; *ophthalmology consultation; *intravitreal injection; erythromycin ointment;
    brimonidine; *cataract extraction | blurred vision; floaters; red painful eye; visual field cut; lid swelling |
    elder
H60-H95 | meclizine; ofloxacin drops; *audiogram; *myringotomy; betahistine | ringing in the ears; room spinning; ear
    drainage; earache | elder
I00-I28 | ranolazine; isosorbide mononitrate; hydralazine; *coronary angiogram; clonidine; bosentan; penicillin
    prophylaxis | chest pressure at rest; labile pressures; diastolic murmur; wall motion abnormality | heart
I30-I52 | *pacemaker implantation; *implantable defibrillator placement; flecainide; sotalol; colchicine;
    *pericardiocentesis; ivabradine; *valve repair | friction rub; heart block on telemetry; wide complex tachycardia;
    new murmur; lightheaded spells | heart
I60-I69 | nimodipine; *aneurysm coiling; *carotid endarterectomy; ticagrelor; *stroke rehabilitation; labetalol |
    slurred speech; neglect; gaze preference; worst headache; word finding trouble | stroke
I70-I99 | *bypass graft of the leg; pentoxifylline; *vascular surgery consultation; *sclerotherapy; compression
    stockings; fondaparinux; droxidopa | cold leg; rest pain; varicosities; nonhealing toe; lymphedema; orthostatic
    drops | heart clot diabetes
J00-J22 | oseltamivir; amoxicillin-clavulanate; guaifenesin; *respiratory viral panel; doxycycline; racemic
    epinephrine | sore throat; rhinorrhea; hoarse voice; myalgias; bibasilar infiltrates | lung
J30-J99 | *bronchoscopy; budesonide nebulizer; *noninvasive ventilation; theophylline; *tracheostomy; dornase alfa;
    *decortication; roflumilast | chronic cough; stridor; nasal polyps; tachypnea; cavitary change; hypercarbia | lung
K00-K31 | *esophageal dilation; sucralfate; esomeprazole; chlorhexidine rinse; *dental extraction; metoclopramide;
    *fundoplication; bismuth | tooth pain; food sticking; bloating; epigastric burning; regurgitation | gut
K35-K68 | *appendectomy; *colonoscopy; *hernia repair; ertapenem; hyoscyamine; linaclotide; *colostomy; *abscess
    drainage; hydrocortisone enema | rebound tenderness; rectal bleeding; groin bulge; obstipation; free air; mucus in
    stool | gut
K70-K95 | *ERCP with sphincterotomy; ursodiol; pancrelipase; obeticholic acid; *liver biopsy; entecavir;
    cholestyramine; *pancreatic necrosectomy | icteric sclerae; pruritus; greasy stools; elevated bilirubin; right
    upper quadrant ache | liver gut
L00-L99 | triamcinolone cream; *skin biopsy; *incision and drainage; mupirocin; dapsone; clobetasol; *dermatology
    consultation; terbinafine | blistering rash; weeping plaques; itch; boil; hair loss; nonhealing sore | skin
M00-M36 | *arthrocentesis; leflunomide; tocilizumab; *joint washout; febuxostat; naproxen; cyclophosphamide;
    *rheumatology consultation | hot swollen joint; stiff hands; effusion of knee; dry eyes; deformity; digital ulcers
    | bone
M40-M99 | *spinal fusion; tizanidine; *kyphoplasty; teriparatide; *bone biopsy; ketorolac; *physical therapy;
    *fasciotomy; celecoxib | back pain; radicular leg pain; stooped posture; muscle spasm; heel pain; vertebral
    collapse | bone
N00-N39 | *kidney biopsy; tolvaptan; *ureteral stent placement; oxybutynin; fosfomycin; patiromer; *renal
    consultation; mirabegron | foamy urine; red cell casts; leaking urine; flank ache; cloudy urine; bladder spasms |
    kidney
N40-N99 | *prostate resection; *hysterectomy; medroxyprogesterone; *breast abscess drainage; sildenafil; leuprolide;
    *pelvic ultrasound; tranexamic acid | heavy bleeding; pelvic pain; breast tenderness; scrotal swelling; hot
    flashes | elder
Q00-QA0 | *genetics consultation; *surgical correction; *echocardiogram for congenital disease; growth hormone |
    anomaly known since birth; unusual facies; murmur since childhood | heart
R00-R99 | *observation on telemetry; ondansetron; meclizine; *broad laboratory workup; simethicone; *neurology
    evaluation; megestrol | symptom of unclear cause; intermittent episodes; self limited spells; abnormal screening
    test | elder gut
S00-S99 | *open reduction and internal fixation; *splinting; tetanus vaccine; *trauma survey; *wound irrigation and
    closure; morphine; *sling | deformity after trauma; point tenderness; ecchymosis; laceration; limited range of
    motion | bone
T07-T88 | *hardware removal; *washout and revision; naloxone; acetylcysteine; *toxicology consultation;
    diphenhydramine; *line removal | drainage from the incision; overdose; anaphylaxis; malfunction of device;
    swelling around the graft | surgery sepsis
Z00-Z99 | | | surgery elder cancer
"""

CLUSTERS = tuple(
    "heart kidney diabetes lung sepsis liver gut stroke cancer bone mind elder blood clot skin surgery".split()
)
